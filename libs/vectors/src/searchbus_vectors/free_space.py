"""Nothing is written to a disk that is nearly full.

The engine writes through mapped files: on a full disk that ends the process, without an exception.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .store import StorageFull

__all__ = ["FreeSpace", "free_bytes_of"]


def free_bytes_of(folder: Path) -> int:
    """The free space of a folder's disk."""
    return shutil.disk_usage(folder).free


class FreeSpace:
    """Checks the free space before a write.

    Args:
        min_free_bytes: no points are stored below that.
        free_bytes: the free space of a folder's disk.
    """

    def __init__(
        self, folder: Path, min_free_bytes: int, free_bytes: Callable[[Path], int]
    ) -> None:
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._free_bytes = free_bytes

    def check(self) -> None:
        """Raise StorageFull where the disk has less than `min_free_bytes` free."""
        self._check(self._min_free_bytes)

    def check_for_end(self) -> None:
        """The same for what ends a document that was begun, or removes one: down to a quarter."""
        self._check(self._min_free_bytes / 4)

    def _check(self, least_bytes: float) -> None:
        free = self._free_bytes(self._folder)
        if free < least_bytes:
            raise StorageFull(
                f"{free / 2**20:.0f} MiB are free in {self._folder}; "
                f"{self._min_free_bytes / 2**20:.0f} MiB are needed to write"
            )

"""A few MiB that a data folder keeps for a start on a full disk.

    keep_reserve(folder)      # before anything else is written there

A start writes small files: configuration, ports, state, what the document store needs to open.
While there is space a file of that size is kept; a start that finds the disk full removes it first.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["RESERVE_BYTES", "keep_reserve"]

log = logging.getLogger("searchbus.storage")

RESERVE_BYTES = 4 * 2**20
_PLENTY_BYTES = 16 * RESERVE_BYTES
_FILE = ".reserve"


def keep_reserve(
    folder: Path,
    *,
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> None:
    """Keep the reserve where there is space for it, and release it where there is none.

    Args:
        folder: it must exist.
        free_bytes: the free space of a folder's disk; tests pass their own.
    """
    path = folder / _FILE
    free = free_bytes(folder)
    try:
        if free < RESERVE_BYTES and path.exists():
            path.unlink()
            log.warning("the disk of %s is full; its reserve is used for this start", folder)
        elif free >= _PLENTY_BYTES and not path.exists():
            _allocate(path)
    except OSError as error:  # the reserve is a precaution
        log.warning("the reserve of %s could not be changed: %s", folder, error.strerror)


def _allocate(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        else:
            os.write(descriptor, b"\xff" * RESERVE_BYTES)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)

"""Space of a disk that is kept for starts.

with space_for_start(folder, "nats"):      # before anything else is written there
    ...
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger("searchbus.storage")

RESERVE_BYTES = 4 * 2**20
_PLENTY_BYTES = 16 * RESERVE_BYTES
_LEAST_BYTES = 64 * 2**10


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@contextmanager
def space_for_start(
    folder: Path, user: str, *, free_bytes: Callable[[Path], int] = _free_bytes
) -> Iterator[None]:
    """Keep a few MiB of a data folder for starts on a full disk; release them for the block.

    A start writes small files: configuration, ports, what the document store needs to open. While
    there is space a file of that size is kept. A start that finds the disk full removes it first,
    and keeps what is left of it for the next start. Each user has a file of its own: one that needs
    all of it must not stop the next start of another.

    Args:
        folder: it must exist.
        user: part of the file's name.
        free_bytes: the free space of a folder's disk; tests pass their own.
    """
    path = folder / f".reserve-{user}"
    free = free_bytes(folder)
    released = free < RESERVE_BYTES and path.exists()
    try:
        if released:
            path.unlink()
            log.warning("the disk of %s is full; the reserve for %s is used", folder, user)
        elif free >= _PLENTY_BYTES:
            _allocate(path, RESERVE_BYTES)
    except OSError as error:  # the reserve is a precaution
        log.warning("the reserve of %s could not be changed: %s", folder, error.strerror)
    try:
        yield
    finally:
        if released:
            _keep_rest(path, free_bytes(folder))


def _keep_rest(path: Path, free: int) -> None:
    """Take back what the start has left, before logs and traces fill the disk again."""
    size = min(RESERVE_BYTES, free)
    while size >= _LEAST_BYTES:
        try:
            _allocate(path, size)
        except OSError:  # the file system needs some of it for itself
            size //= 2
        else:
            return
    log.warning("the disk of %s is full; nothing is left for another start", path.parent)


def _allocate(path: Path, size: int) -> None:
    """Make the file that large; its blocks are allocated."""
    if path.exists() and path.stat().st_size >= size:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.write(descriptor, b"\xff" * size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)

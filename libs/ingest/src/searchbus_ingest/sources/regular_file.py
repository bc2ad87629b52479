"""Reads regular files only, up to a size, and notices a change while it reads.

    with open_regular(path, max_bytes=1024) as file:
        body = file.read()

A FIFO would block for ever and a device may never end, so that the kind is checked after opening,
which does not wait.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .item import Reason, SkipError

__all__ = ["kind_of", "open_regular", "read_regular"]


@contextmanager
def open_regular(path: Path, *, max_bytes: int | None) -> Iterator[BinaryIO]:
    """Open a regular file.

    Args:
        max_bytes: `None` for a reader that takes one line at a time.

    Raises:
        SkipError: not a regular file, too large, gone, or changed until the end of the block.
        OSError: it cannot be read.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        raise SkipError(Reason.CHANGED, "cannot be read: there is no such file any more") from None
    with file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise SkipError(Reason.NOT_REGULAR, f"{kind_of(before.st_mode)}, not a regular file")
        if max_bytes is not None and before.st_size > max_bytes:
            raise SkipError(Reason.TOO_LARGE, _too_large(max_bytes))
        yield file
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise SkipError(Reason.CHANGED, "changed while it was read; run the ingest again")


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """The whole content of a regular file.

    Raises:
        SkipError, OSError: as `open_regular`.
    """
    with open_regular(path, max_bytes=max_bytes) as file:
        body = file.read(max_bytes + 1)
        if len(body) > max_bytes:  # files of /proc have no size
            raise SkipError(Reason.TOO_LARGE, _too_large(max_bytes))
    return body


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def kind_of(mode: int) -> str:
    """What a file is that is not a regular one."""
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def _too_large(max_bytes: int) -> str:
    return f"the file is larger than {max_bytes // 1024 // 1024} MiB, the limit of a file; split it"

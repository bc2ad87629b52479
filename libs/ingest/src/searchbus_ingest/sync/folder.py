"""A folder, or one file: what changed is seen by size, times and inode, as of git's index."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from searchbus_runtime.files import file_stamp

from ..sending import in_thread
from ..sources.files import SUFFIXES, read_files
from ..sources.item import Item
from ..sources.walk import FoundFile, find_files
from .source import SourceEntry, SourceListing, SourceUnreadableError

_FRESH_NS = 2_000_000_000
"""A file that changed so recently may change again within one tick of the clock, unseen."""


class FolderSource:
    """A folder, without hidden and generated files."""

    def __init__(self, path: Path, include: tuple[str, ...] = ()) -> None:
        self._path = path
        self._include = include

    async def entries(self, known: str) -> SourceListing:
        """See `SyncSource`."""
        return await asyncio.to_thread(self._list)

    def _list(self) -> SourceListing:
        try:
            if self._path.is_dir():
                os.scandir(self._path).close()
            else:
                self._path.stat()
        except OSError as error:
            raise SourceUnreadableError(f"{self._path}: {error.strerror}") from None
        found = SourceListing([])
        for file in find_files(self._path, SUFFIXES, include=self._include):
            if file.skipped is not None:
                found.skipped.append(file.skipped)
            else:
                found.entries.append(SourceEntry(file.name, _stamp(file.path), file))
        return found

    async def read(self, entry: SourceEntry, known: str, collection: str) -> AsyncIterator[Item]:
        """See `SyncSource`."""
        file: FoundFile = entry.content
        async for item in in_thread(read_files([file], collection)):
            yield item

    async def close(self) -> None:
        """See `SyncSource`."""


def _stamp(path: Path) -> str:
    try:
        stamp = file_stamp(path)
    except OSError:
        return ""
    if stamp is None or time.time_ns() - stamp[1] < _FRESH_NS:
        return ""
    return "-".join(map(str, stamp))

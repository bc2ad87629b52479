"""What a sync reads: a source lists its entries, and reads those that have changed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from searchbus_runtime.files import file_stamp

from ..sources.content import SUFFIXES
from ..sources.files import read_files
from ..sources.item import Item
from ..sources.reading import Reader
from ..sources.walk import FoundFile, find_files

_FRESH_NS = 2_000_000_000
"""A file that changed so recently may change again within one tick of the clock, unseen."""


class SourceUnreadableError(Exception):
    """A source cannot be listed; the message says why. Nothing is deleted then."""


@dataclass(slots=True)
class SourceEntry:
    """A file, an entry of a feed, or a page.

    Args:
        name: what the source calls it; its documents keep it as `synced_as`.
        stamp: changes with its content. Empty: only reading it tells, which may set it.
        content: of the source's own.
    """

    name: str
    stamp: str = ""
    content: Any = None


@dataclass(slots=True)
class SourceListing:
    """All that a source has now.

    Args:
        skipped: what is not read, each with its reason.
        stamp: changes with the whole source; empty where only the entries tell.
        gone_after: only documents of a later day than this (YYYY-MM-DD) are deleted when they are
            missing, since feeds drop their old entries. Empty: all that are missing.
        partial: why it is not all, so that nothing is deleted.
    """

    entries: list[SourceEntry]
    skipped: list[Item] = field(default_factory=list)
    stamp: str = ""
    gone_after: str = ""
    partial: str = ""


class SyncSource(Protocol):
    """One source, opened for one sync."""

    async def entries(self, known: str) -> SourceListing:
        """List it.

        Args:
            known: stamp of the whole source at the last sync whose result is still in place.

        Raises:
            SourceUnreadableError: it cannot be listed.
            SourceUnchangedError: it is as it was then.
        """

    def read(self, entry: SourceEntry, known: str, collection: str) -> AsyncIterator[Item]:
        """The documents of an entry, and why others are missing; raises SourceUnchangedError where
        it is as the stamp `known` says."""

    async def close(self) -> None:
        """Release what it has opened."""


class FolderSource:
    """A folder, without hidden and generated files, or one file.

    What changed is seen by size, times and inode, as of git's index.
    """

    def __init__(self, path: Path, include: tuple[str, ...] = ()) -> None:
        self._path = path
        self._include = include
        self._reader = Reader()

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
        async for item in read_files([file], collection, self._reader):
            yield item

    async def close(self) -> None:
        """See `SyncSource`."""
        await self._reader.close()


def _stamp(path: Path) -> str:
    try:
        stamp = file_stamp(path)
    except OSError:
        return ""
    if stamp is None or time.time_ns() - stamp[1] < _FRESH_NS:
        return ""
    return "-".join(map(str, stamp))

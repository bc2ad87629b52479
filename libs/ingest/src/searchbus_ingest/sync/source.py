"""What a sync reads: a source lists its entries, and reads those that have changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..sources.item import Item


class SourceUnreadableError(Exception):
    """A source cannot be listed; the message says why. Nothing is deleted then."""


class SourceUnchangedError(Exception):
    """A source, or one of its entries, is as it was at the last sync."""


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

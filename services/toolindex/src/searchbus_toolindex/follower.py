"""Keeps the index equal to the catalogues on the bus.

It embeds the new entries of a service, then replaces what has changed, in slices between which
searches run.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from searchbus_bus import Bus, Directory, end_task, telemetry, wait_for_event
from searchbus_contracts import Catalog
from searchbus_vectors import Vector

from .embedding import Embeds
from .entries import Descriptor, IndexEntry, descriptors_of, entry_of
from .index import Index, IndexDifference
from .vector_file import VectorFile, text_key

log = logging.getLogger("searchbus.toolindex")
_BATCH = 200
_FEW = 50
"""So many texts are embedded like a query, not at the low priority of documents: callers wait for
these tools, and for less than half a second."""
_RETRY_S = (1.0, 60.0)
"""After how long a failed update is tried again: at first, and at most."""
_JITTER = (0.8, 1.2)


@dataclass(slots=True)
class _Followed:
    """A service as it was indexed. `made`: id of a descriptor → it and its entry, which is not made
    again for an unchanged descriptor."""

    catalog: Catalog
    toolsets: tuple[str, ...]
    owned: tuple[str, ...] = ()
    made: dict[int, tuple[Descriptor, IndexEntry]] = field(default_factory=dict)

    def make(self, before: _Followed | None) -> list[IndexEntry]:
        """The entries of the toolsets that this service owns; the edge routes alike."""
        known = before.made if before is not None else {}
        for descriptor in descriptors_of(self.catalog):
            if descriptor.toolset in self.owned:
                pair = known.get(id(descriptor)) or (descriptor, entry_of(descriptor))
                self.made[id(descriptor)] = pair
        return [entry for _, entry in self.made.values()]


class Follower:
    """Follows a `Directory` with these options. Use as an asynchronous context manager; entering
    builds the index."""

    def __init__(
        self, bus: Bus, index: Index, embedder: Embeds, vectors: VectorFile, **options: Any
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._vectors = vectors
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._followed: dict[str, _Followed] = {}
        self.directory = Directory(bus, on_change=self._wake.set, **options)

    async def __aenter__(self) -> Follower:
        await self.directory.start()
        started_s = time.perf_counter()
        whole = await self._update()
        log.info("indexed %d entries in %.1f s", len(self._index), time.perf_counter() - started_s)
        self._task = asyncio.get_running_loop().create_task(self._follow(whole))
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_task(self._task)
        await self.directory.close()

    async def _follow(self, whole: bool) -> None:
        least_s, most_s = _RETRY_S
        pause_s = least_s
        while True:
            # A change is followed at once, also before the next attempt at what failed.
            limit_s = None if whole else pause_s * random.uniform(*_JITTER)  # noqa: S311  (jitter)
            if await wait_for_event(self._wake, limit_s):
                self._wake.clear()
            pause_s = least_s if whole else min(most_s, 2 * pause_s)
            whole = await self._update()

    async def _update(self) -> bool:
        """Index what has changed; False where that failed for a service, which stays as it was."""
        catalogs = {catalog.service: catalog for catalog in self.directory.catalogs}
        changed, whole = False, True
        # Whoever loses a toolset first: the index keeps an entry with the service that has it.
        owner = self.directory.owner
        losing = [s for s, f in self._followed.items() if any(owner(t) != s for t in f.owned)]
        for service in dict.fromkeys((*losing, *self._followed, *catalogs)):
            try:
                changed |= await self._follow_service(service, catalogs.get(service))
            except Exception:
                whole = False
                telemetry.count_failed("index")
                log.exception("the entries of %s could not be updated; it is tried again", service)
        if changed:
            await asyncio.to_thread(self._forget_vectors)
        return whole

    async def _follow_service(self, service: str, catalog: Catalog | None) -> bool:
        """Index one service; False where nothing has changed."""
        before = self._followed.get(service)
        if catalog is None:
            await self._replace(service, self._index.difference(service, []))
            del self._followed[service]
            return True
        # A service whose catalogue and toolsets are as they were costs nothing.
        known = before if before is not None and before.catalog is catalog else None
        toolsets = catalog.toolsets if known is None else known.toolsets
        owned = tuple(t for t in toolsets if self.directory.owner(t) == service)
        if known is not None and known.owned == owned:
            return False
        after = _Followed(catalog, toolsets, owned)
        # In threads, for catalogues of thousands.
        entries = await asyncio.to_thread(after.make, before)
        difference = await asyncio.to_thread(self._index.difference, service, entries)
        new = list(difference.changed.values())
        await self._embed(service, await asyncio.to_thread(self._unknown_texts, new))
        await self._replace(service, difference)
        self._followed[service] = after
        return True

    async def _replace(self, service: str, difference: IndexDifference) -> None:
        """Change the entries of a service; searches go on meanwhile."""
        for _ in self._index.replacing(service, difference, self._known):
            await asyncio.sleep(0)

    def _forget_vectors(self) -> None:
        """Remove the vectors of texts that are no longer indexed."""
        self._vectors.keep_only(
            self._key(text)
            for entry in self._index.slots
            if entry is not None
            for text in entry.embedded
        )

    def _unknown_texts(self, entries: Sequence[IndexEntry]) -> list[str]:
        """The texts of entries that have no vector yet."""
        texts = dict.fromkeys(text for e in entries for text in e.embedded)
        return [text for text in texts if self._vectors.get(self._key(text)) is None]

    async def _embed(self, service: str, missing: Sequence[str]) -> None:
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            vectors = await self._embedder.embed_short(batch, urgent=len(missing) <= _FEW)
            self._vectors.add(
                {self._key(text): vector for text, vector in zip(batch, vectors, strict=True)}
            )
            if len(missing) > _BATCH:
                done = min(start + _BATCH, len(missing))
                log.info("%s: embedded %d of %d texts", service, done, len(missing))

    def _known(self, entry: IndexEntry) -> list[Vector]:
        """An entry's vectors; raises LookupError where another process removed one: tried again."""
        found = [self._vectors.get(self._key(text)) for text in entry.embedded]
        known = [vector for vector in found if vector is not None]
        if len(known) < len(found):
            raise LookupError(f"the file of vectors no longer has those of {entry.name}")
        return known

    def _key(self, text: str) -> bytes:
        return text_key(self._embedder.model, text)

"""Keeps the index equal to the catalogues on the bus.

It embeds the new entries of a service, then replaces the entries of that service in one step.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from searchbus_bus import Bus, Directory, end_task
from searchbus_contracts import Catalog
from searchbus_vectors import Vector

from .entries import Entry, entries_of
from .finder import Embeds
from .index import Index
from .vector_file import VectorFile, text_key

__all__ = ["Follower"]

log = logging.getLogger("searchbus.toolindex")
_BATCH = 200


@dataclass(slots=True)
class _Followed:
    catalog: Catalog
    toolsets: tuple[str, ...]
    owned: tuple[str, ...] = ()


class Follower:
    """Follows the directory. Use as an asynchronous context manager; entering builds the index.

    Args:
        expected, grace_s, lost_grace_s: which services' entries stay while they are away, and for
            how long; see `searchbus_bus.presence`.
        refresh_s: how often all services are queried; most changes arrive earlier, as events.
        declared: toolset → the service that declares it, as at the edge.
    """

    def __init__(
        self,
        bus: Bus,
        index: Index,
        embedder: Embeds,
        vectors: VectorFile,
        *,
        model: str,
        expected: Collection[str] = (),
        grace_s: float = 30.0,
        lost_grace_s: float = 86_400.0,
        refresh_s: float = 5.0,
        declared: Mapping[str, str] | None = None,
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._vectors = vectors
        self._model = model
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._followed: dict[str, _Followed] = {}
        self.directory = Directory(
            bus,
            expected=expected,
            grace_s=grace_s,
            lost_grace_s=lost_grace_s,
            refresh_s=refresh_s,
            on_change=self._wake.set,
            declared=declared,
        )

    async def __aenter__(self) -> Follower:
        await self.directory.start()
        started_s = time.perf_counter()
        await self._update()
        log.info("indexed %d entries in %.1f s", len(self._index), time.perf_counter() - started_s)
        self._task = asyncio.get_running_loop().create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_task(self._task)
        await self.directory.close()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._update()
            except Exception:
                log.exception("the index could not be updated; the next change tries again")

    async def _update(self) -> None:
        catalogs = {catalog.service: catalog for catalog in self.directory.catalogs}
        for service in [s for s in self._index.services if s not in catalogs]:
            self._index.replace(service, [], self._known)
            del self._followed[service]
        changed = False
        for service, catalog in catalogs.items():
            # A service whose catalogue and toolsets are as they were costs nothing.
            before = self._followed.get(service)
            if before is None or before.catalog is not catalog:
                after = _Followed(catalog, catalog.toolsets)
            else:
                after = before
            owned = tuple(t for t in after.toolsets if self.directory.owner(t) == service)
            if after is before and owned == before.owned:
                continue
            after.owned = owned
            await self._replace(service, catalog, frozenset(owned))
            self._followed[service] = after
            changed = True
        if changed:
            self._forget_vectors()

    async def _replace(self, service: str, catalog: Catalog, owned: frozenset[str]) -> None:
        """Index the entries of the toolsets that this service owns; the edge routes alike."""
        # In a thread, for catalogues of thousands.
        entries = await asyncio.to_thread(
            lambda: [entry for entry in entries_of(catalog) if entry.toolset in owned]
        )
        before = self._index.entries(service)
        new = [e for e in entries if e.key not in before or before[e.key].digest != e.digest]
        if new or len(entries) != len(before):
            await self._embed(service, new)
            self._index.replace(service, entries, self._known)

    def _forget_vectors(self) -> None:
        """Remove the vectors of texts that are no longer indexed."""
        self._vectors.keep_only(
            self._key(text)
            for service in self._index.services
            for entry in self._index.entries(service).values()
            for text in (entry.text, *entry.examples)
        )

    async def _embed(self, service: str, entries: Sequence[Entry]) -> None:
        texts = dict.fromkeys(text for e in entries for text in (e.text, *e.examples))
        missing = [text for text in texts if self._vectors.get(self._key(text)) is None]
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            vectors = await self._embedder.embed_short(batch, urgent=False)
            self._vectors.add(
                {self._key(text): vector for text, vector in zip(batch, vectors, strict=True)}
            )
            if len(missing) > _BATCH:
                done = min(start + _BATCH, len(missing))
                log.info("%s: embedded %d of %d texts", service, done, len(missing))

    def _known(self, entry: Entry) -> list[Vector]:
        found = (self._vectors.get(self._key(text)) for text in (entry.text, *entry.examples))
        return [vector for vector in found if vector is not None]

    def _key(self, text: str) -> bytes:
        return text_key(self._model, text)

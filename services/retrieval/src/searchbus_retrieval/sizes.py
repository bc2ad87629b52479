"""Metrics of the sizes of the collections, counted every 15 seconds and not at every scrape."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

from opentelemetry import metrics

from searchbus_bus import LiveGauge, end_task, telemetry

from .library import Library

__all__ = ["Sizes"]

log = logging.getLogger("searchbus.retrieval")

EVERY_S = 15.0
MAX_COLLECTIONS = 200
"""The first ones by name have a series each; all others share one."""


class Sizes:
    """Counts in the background. Use as an asynchronous context manager."""

    def __init__(self, library: Library, *, every_s: float = EVERY_S) -> None:
        self._library = library
        self._every_s = every_s
        self._found: dict[str, tuple[int, int]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Sizes:
        self._task = asyncio.get_running_loop().create_task(self._run())
        _documents.watch(self)
        _passages.watch(self)
        _damaged.watch(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_task(self._task)

    def read(self, which: int) -> Iterator[tuple[float, Mapping[str, str]]]:
        """Documents (0) or passages (1) by collection."""
        for number, (name, sizes) in enumerate(sorted(self._found.items())):
            yield sizes[which], {"collection": name if number < MAX_COLLECTIONS else "other"}

    def damaged(self) -> Iterator[tuple[float, Mapping[str, str]]]:
        """The number of collections that are damaged."""
        yield len(self._library.damaged), {}

    async def _run(self) -> None:
        while True:
            try:
                found = await self._library.list_collections()
                self._found = {c.name: (c.documents, c.chunks) for c in found}
            except Exception as error:  # the service works without these metrics
                telemetry.count_failed("sizes")
                log.warning("the collections could not be counted: %s", error)
            await asyncio.sleep(self._every_s)


_meter = metrics.get_meter("searchbus.retrieval")
_documents: LiveGauge[Sizes] = LiveGauge(
    _meter, "searchbus.index.documents", lambda sizes: sizes.read(0), description="By collection."
)
_passages: LiveGauge[Sizes] = LiveGauge(
    _meter, "searchbus.index.passages", lambda sizes: sizes.read(1), description="By collection."
)
_damaged: LiveGauge[Sizes] = LiveGauge(
    _meter, "searchbus.index.damaged", Sizes.damaged, description="Damaged collections."
)

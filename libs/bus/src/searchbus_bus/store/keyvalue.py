"""A small key-value store that workers share: the protocol, and a bucket in memory.

A restart of NATS empties a bucket, unless it is on disk (`on_disk`, or `ttl_s` is None). An
operation raises Fault(unavailable) where the store does not answer within the bucket's `timeout_s`;
from then on every operation fails at once, until the bucket was opened again in the background.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from searchbus_contracts import ErrorCode, Fault

TIMEOUT_S = 0.1
"""Default limit of an operation: what a call may lose when the store goes away."""
NEEDED_TIMEOUT_S = 2.0
"""Limit of an operation where nothing can be done without the store, or where no call waits."""
MAX_VALUE_BYTES = 512 * 1024
"""A write of a longer value raises Fault(unavailable)."""

OnWrite = Callable[[str, bytes | None], None]
"""Called with the key and its new value; None where it was deleted. Must be quick."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the revision it was written with."""

    value: bytes
    revision: int


class KeyValue(Protocol):
    """One bucket. Keys are 1 to 64 of A-Z a-z 0-9 _ - and dots between them."""

    async def get(self, key: str) -> Entry | None:
        """The entry of a key; None where the key does not exist or has expired."""

    async def put(self, key: str, value: bytes) -> int:
        """Write a value and return its revision."""

    async def create(self, key: str, value: bytes) -> int | None:
        """Write a new key and return its revision; None where the key exists."""

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace the value of that revision; None where another write came first."""

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Delete a key, or only this revision of it; a missing one is no error."""

    async def keys(self) -> list[str]:
        """Every key, sorted; one that was deleted may be among them for two seconds."""

    async def watch(self, on_write: OnWrite) -> None:
        """Call back for every write from now on, until the connection is closed.

        A write that lost its compare and set is reported too, so a watched key should have one
        writer. Not reported: that an entry expired, and what happened while the store was
        unreachable. Read the keys again from time to time.
        """

    async def unwatch(self, on_write: OnWrite) -> None:
        """Call back no more; one that does not watch is no error."""


async def write_over(store: KeyValue, key: str, value: bytes, entry: Entry | None) -> int | None:
    """Write over the entry that was read, or nothing; its revision, None if another came first."""
    if entry is None:
        return await store.create(key, value)
    return await store.update(key, value, entry.revision)


class MemoryKeyValue:
    """One bucket; every connection of a `MemoryBroker` shares it. An entry lives for `ttl_s` after
    it was written (`None`: for ever) by the clock, in seconds."""

    def __init__(self, *, ttl_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = math.inf if ttl_s is None else ttl_s
        self._clock = clock
        self._entries: dict[str, tuple[Entry, float]] = {}
        self._revision = 0
        self._watchers: list[OnWrite] = []
        self.away = False
        """Set by tests: every operation fails as if the server were unreachable."""

    async def get(self, key: str) -> Entry | None:
        """See KeyValue."""
        await self._round_trip()
        entry, expires_at_s = self._entries.get(key, (None, 0.0))
        return entry if expires_at_s >= self._clock() else None

    async def put(self, key: str, value: bytes) -> int:
        """See KeyValue."""
        await self._round_trip()
        return self._write(key, value)

    async def create(self, key: str, value: bytes) -> int | None:
        """See KeyValue."""
        return None if await self.get(key) is not None else self._write(key, value)

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """See KeyValue."""
        entry = await self.get(key)
        return self._write(key, value) if entry and entry.revision == revision else None

    async def delete(self, key: str, revision: int | None = None) -> None:
        """See KeyValue."""
        await self._round_trip()
        entry, _ = self._entries.get(key, (None, 0.0))
        if revision is not None and (entry is None or entry.revision != revision):
            return
        self._entries.pop(key, None)
        self._report(key, None)

    async def keys(self) -> list[str]:
        """See KeyValue."""
        await self._round_trip()
        now_s = self._clock()
        return sorted(
            key for key, (_, expires_at_s) in self._entries.items() if expires_at_s >= now_s
        )

    async def watch(self, on_write: OnWrite) -> None:
        """See KeyValue."""
        self._watchers.append(on_write)

    async def unwatch(self, on_write: OnWrite) -> None:
        """See KeyValue."""
        self._watchers = [other for other in self._watchers if other != on_write]

    def _report(self, key: str, value: bytes | None) -> None:
        for on_write in self._watchers:
            on_write(key, value)

    def _write(self, key: str, value: bytes) -> int:
        _require(len(value) <= MAX_VALUE_BYTES)
        self._revision += 1
        self._entries[key] = (Entry(value, self._revision), self._clock() + self._ttl_s)
        self._report(key, value)
        return self._revision

    async def _round_trip(self) -> None:
        _require(not self.away)
        await asyncio.sleep(0)


def _require(met: bool) -> None:
    if not met:
        raise Fault(ErrorCode.UNAVAILABLE, "The key-value store is unreachable. Try again shortly.")

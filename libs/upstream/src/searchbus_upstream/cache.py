"""A cache shared by all workers: equal requests at the same time cost one upstream request.

    cached = await cache.get("search:…", fetch, fresh_s=600, stale_s=3600)

Three layers: an LRU cache in this process; single flight in this process; the key-value store of
the bus for other processes, with a lease for the fetch that is under way. The worker that fetches
writes its lease again and again; where a worker is lost, the lease expires and one of those who
wait takes over. A failure is raised for every caller that waits for that fetch and never stored;
only where the time of the one who fetched was too short, a caller with clearly more fetches again.
Where a fetch fails, a stored value older than `fresh_s` but not older than `stale_s` is returned
and marked as stale. Without the key-value store everything works within the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from cachetools import LRUCache

from searchbus_bus import Bus, KeyValue
from searchbus_bus.store.lease import Lease
from searchbus_contracts import ErrorCode, Failure, Fault, decode, encode

from .telemetry import count_lookup

log = logging.getLogger("searchbus.upstream")

LEASE_TTL_S = 2.0
"""The lease of a worker that is lost expires after this time: other calls wait for it."""
_RENEW_EVERY_S = LEASE_TTL_S / 3
_POLL_MIN_S, _POLL_MAX_S = 0.02, 0.2
_HEADER = struct.Struct(">Q")
_LEAST_S = 1.0
"""With less time left nobody fetches again: an answer takes about as long."""
_CLEARLY_MORE = 1.5
"""So few fetches follow one another: with the time that is left each would wait longer than the one
before, and an upstream that is silent would be asked by all who wait."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch returned, encoded; without `store` only those who wait for this fetch receive it
    (e.g. a partial result)."""

    value: bytes
    store: bool = True


@dataclass(frozen=True, slots=True)
class Cached:
    """A value, when it was fetched, and how it was found.

    Args:
        made_ms: milliseconds of the epoch.
        hit: it was stored before this request.
        stale: it is older than `fresh_s`, since a fetch failed.
    """

    value: bytes
    made_ms: int
    hit: bool = False
    stale: bool = False


Fetch = Callable[[], Awaitable[Fetched]]


class _Flight(msgspec.Struct, omit_defaults=True):
    """The lease of a fetch; its outcome replaces it where nothing is stored."""

    id: str
    failure: Failure | None = None
    took_s: float = 0.0
    value: bytes | None = None

    @property
    def over(self) -> bool:
        """Whether this is the outcome of a fetch."""
        return self.failure is not None or self.value is not None

    def wrote(self, value: bytes) -> bool:
        """Whether an entry is of this fetch."""
        return decode(value, _Flight).id == self.id


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[Cached]
    waiting: int = 0


class _FailedError(Exception):
    """A fetch failed; `took_s` is how long the upstream was waited for."""

    def __init__(self, fault: Fault, took_s: float = 0.0) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.took_s = took_s

    def lets_again(self, end_s: float) -> bool:
        """Whether a request that waited for it, and has time until then, fetches for itself."""
        left_s = end_s - asyncio.get_running_loop().time()
        failure = self.fault.failure
        if failure.code == ErrorCode.DEADLINE_EXCEEDED:
            return left_s >= max(_LEAST_S, _CLEARLY_MORE * self.took_s)
        if failure.code == ErrorCode.RATE_LIMITED:
            return left_s >= _LEAST_S + (failure.retry_after_ms or 0) / 1000
        # One caller's turn, and its leaving, say nothing of the others.
        return failure.code in (ErrorCode.OVERLOADED, ErrorCode.CANCELLED)


class SharedCache:
    """A cache of one kind of value.

    Args:
        answers, flights: buckets for the values and the leases; None: within the process only.
        name: in metrics.
        local_bytes: of values kept in this process.
        clock: seconds of the epoch.
    """

    def __init__(
        self,
        answers: KeyValue | None = None,
        flights: KeyValue | None = None,
        *,
        name: str = "",
        local_bytes: int = 32 * 2**20,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._answers = answers
        self._flights = flights
        self._local: LRUCache[str, Cached] = LRUCache(
            local_bytes, getsizeof=lambda entry: len(entry.value)
        )
        self._clock = clock
        self._running: dict[str, _Running] = {}

    @classmethod
    async def over(cls, bus: Bus, name: str, *, stale_s: float, max_bytes: int) -> SharedCache:
        """Open a cache shared over the bus; without the store every worker caches for itself."""
        answers = await bus.key_value(f"{name}_answers", ttl_s=stale_s, max_bytes=max_bytes)
        flights = await bus.key_value(f"{name}_fetches", ttl_s=LEASE_TTL_S, max_bytes=8 * 2**20)
        return cls(answers, flights, name=name)

    async def get(
        self,
        request: str,
        fetch: Fetch,
        *,
        fresh_s: float,
        stale_s: float,
        timeout_s: float | None = None,
    ) -> Cached:
        """Return the value for a request, stored or fetched.

        Args:
            request: everything that the value depends on.
            fresh_s: how old a value may be; 0 always fetches, but still once at a time.
            stale_s: how old a value may be where fetching fails.
            timeout_s: of this request; the fetch goes on while others wait for it. None: no limit;
                then each who waits fetches again after a fetch whose time was too short.

        Raises:
            Fault: of `fetch`, or deadline_exceeded, where no stored value is young enough.
        """
        outcome = "error"
        try:
            cached = await self._get(request, fetch, fresh_s, stale_s, timeout_s)
            outcome = "stale" if cached.stale else "hit" if cached.hit else "miss"
            return cached
        finally:
            count_lookup(self._name, outcome)

    async def stored(self, request: str, *, fresh_s: float) -> Cached | None:
        """The stored value for a request, if it is not older than `fresh_s`; fetches nothing."""
        entry = await self._stored(_key_of(request))
        return entry if entry is not None and self._age_s(entry) < fresh_s else None

    async def store(self, request: str, value: bytes) -> None:
        """Store a value that no `get` fetched."""
        await self._store(_key_of(request), Fetched(value))

    async def _get(
        self, request: str, fetch: Fetch, fresh_s: float, stale_s: float, timeout_s: float | None
    ) -> Cached:
        key = _key_of(request)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + (math.inf if timeout_s is None else timeout_s)
        tried = partial(_tried, fetch, end_s)
        start = partial(self._fetch_once, key, tried, fresh_s, end_s)
        entry = await self._stored(key)
        if entry is not None and self._age_s(entry) < fresh_s:
            return entry
        while True:
            leading = key not in self._running
            try:
                async with asyncio.timeout_at(None if timeout_s is None else end_s):
                    return await self._join(key, start)
            except TimeoutError:
                fault = _late()
            except _FailedError as failed:
                if not leading and failed.lets_again(end_s):
                    await asyncio.sleep(0)  # until the fetch that failed is no longer joined
                    continue
                fault = failed.fault
            if entry is not None and self._age_s(entry) < stale_s:
                return replace(entry, stale=True)
            raise fault

    async def _join(self, key: str, start: Callable[[], Awaitable[Cached]]) -> Cached:
        """Run one task for all callers of this process; cancel it when the last one leaves."""
        running = self._running.get(key)
        if running is None:
            task = asyncio.ensure_future(start())
            running = self._running[key] = _Running(task)
            task.add_done_callback(lambda _: self._running.pop(key, None))
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if running.task.cancelled():
                fault = Fault(ErrorCode.CANCELLED, "The request was cancelled.")
                raise _FailedError(fault) from None
            raise
        finally:
            running.waiting -= 1
            if not running.waiting and not running.task.done():
                running.task.cancel()

    async def _fetch_once(self, key: str, fetch: Fetch, fresh_s: float, end_s: float) -> Cached:
        """Fetch, unless another worker's fetch is under way: then wait for its outcome."""
        if self._flights is None:
            return await self._store(key, await fetch())
        mine = _Flight(secrets.token_hex(8))
        waited_for: str | None = None
        pause_s = _POLL_MIN_S
        while True:
            try:
                revision = await self._flights.create(key, encode(mine))
                held = await self._flights.get(key) if revision is None else None
                other = decode(held.value, _Flight) if held is not None else None
                if held is not None and other is not None and other.id != waited_for and other.over:
                    # The outcome of a fetch from before this request: none is under way now. Of
                    # those that find it, one takes the lease.
                    revision = await self._flights.update(key, encode(mine), held.revision)
                    if revision is None:
                        continue
            except Fault:
                return await self._store(key, await fetch())  # the store is away
            if revision is not None:
                lease = Lease(
                    self._flights, key, encode(mine), is_mine=mine.wrote, revision=revision
                )
                entry, stored = await self._read(key)
                if entry is not None and self._age_s(entry) < fresh_s:
                    await lease.release()
                    return entry
                return await self._lead(lease, mine, stored, fetch)
            if other is not None and other.value is not None:
                return Cached(other.value, self._now_ms())
            if other is not None and other.failure is not None:
                failed = _FailedError(Fault.of(other.failure), other.took_s)
                if not failed.lets_again(end_s):
                    raise failed
                waited_for = None
                continue
            waited_for = other.id if other is not None else waited_for
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_MAX_S, pause_s * 1.5)
            entry = await self._stored(key)
            if entry is not None and self._age_s(entry) < fresh_s:
                return entry

    async def _lead(self, lease: Lease, mine: _Flight, stored: int | None, fetch: Fetch) -> Cached:
        """Fetch while holding the lease.

        An outcome that is not stored replaces the lease, for workers that wait for it; the next
        request removes it.

        Args:
            stored: as `_store` takes it.
        """
        try:
            async with lease.kept(_RENEW_EVERY_S):
                fetched = await fetch()
        except _FailedError as failed:
            mine.failure, mine.took_s = failed.fault.failure, failed.took_s
            await _replace(lease, mine)
            raise
        except BaseException:
            await asyncio.shield(lease.release())
            raise
        cached = await self._store(lease.key, fetched, stored)
        if fetched.store:
            await lease.release()
        else:
            mine.value = fetched.value
            await _replace(lease, mine)
        return cached

    async def _store(self, key: str, fetched: Fetched, stored: int | None = None) -> Cached:
        """Store what was fetched, where it is to be stored.

        Args:
            stored: the revision that was stored before the fetch, 0 for none: a value that another
                worker has stored since then is newer and stays. `None` is not known.
        """
        cached = Cached(fetched.value, self._now_ms())
        newest = fetched.store and await self._share(key, cached, stored)
        if newest and len(cached.value) <= self._local.maxsize:
            self._local[key] = replace(cached, hit=True)
        return cached

    async def _share(self, key: str, entry: Cached, stored: int | None) -> bool:
        """Store a value for other workers; False where there is a newer one."""
        if self._answers is None:
            return True
        packed = _HEADER.pack(entry.made_ms) + entry.value
        try:
            if stored is None:
                return bool(await self._answers.put(key, packed))
            if stored == 0:
                return await self._answers.create(key, packed) is not None
            return await self._answers.update(key, packed, stored) is not None
        except Fault as fault:
            _note(fault)
            return True

    async def _stored(self, key: str) -> Cached | None:
        """The younger of the value in this process and the one in the bucket."""
        return (await self._read(key))[0]

    async def _read(self, key: str) -> tuple[Cached | None, int | None]:
        """The younger of both values, and the bucket's revision as `_store` takes it."""
        local = self._local.get(key)
        if self._answers is None:
            return local, None
        try:
            held = await self._answers.get(key)
        except Fault:
            return local, None
        if held is None or len(held.value) < _HEADER.size:
            return local, held.revision if held else 0
        made_ms = int(_HEADER.unpack_from(held.value)[0])
        if local is not None and local.made_ms >= made_ms:
            return local, held.revision
        return Cached(held.value[_HEADER.size :], made_ms, hit=True), held.revision

    def _age_s(self, entry: Cached) -> float:
        return self._clock() - entry.made_ms / 1000

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


async def _tried(fetch: Fetch, end_s: float) -> Fetched:
    """What a fetch returns; raises _FailedError. None is started for a request whose time is over,
    while it waited for other workers: those who wait with it lose no more than a turn."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    if started_s >= end_s:
        raise _FailedError(_late())
    try:
        return await fetch()
    except Fault as fault:
        raise _FailedError(fault, loop.time() - started_s) from None


def _late() -> Fault:
    return Fault(ErrorCode.DEADLINE_EXCEEDED, "There was no answer in time. Try again shortly.")


def _key_of(request: str) -> str:
    return hashlib.sha256(request.encode()).hexdigest()[:40]


async def _replace(lease: Lease, outcome: _Flight) -> None:
    """Write the outcome in the place of the lease; without the store nobody waits for it."""
    lease.value = encode(outcome)
    try:
        await lease.write(create=False)
    except Fault as fault:
        _note(fault)


def _note(fault: Fault) -> None:
    """Log a failure of the store, which the bus counts."""
    log.debug("the key-value store failed: %s", fault.failure.message)

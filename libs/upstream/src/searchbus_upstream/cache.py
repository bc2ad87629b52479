"""Answers shared by all workers: equal questions at the same time cost one upstream request.

    cached = await cache.get("search:…", fetch, fresh_s=600, stale_s=3600)

Three layers: this process's own memory; single flight in this process; NATS KV for the others, with
a lease that says who is asking. Errors are told to whoever waits for them and never kept. Where an
upstream fails, an answer that is past its time but not past `stale_s` is given, labelled as such.
Without KV everything works within the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import struct
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from searchbus_bus import Bus, KeyValue
from searchbus_contracts import ErrorCode, Failure, Fault, decode, encode

from .telemetry import count_lookup

__all__ = ["Cached", "SharedCache"]

log = logging.getLogger("searchbus.upstream")

FLIGHT_TTL_S = 20.0
"""A lease whose holder died is free again after this."""
_POLL_MIN_S, _POLL_MAX_S = 0.02, 0.2
_HEADER = struct.Struct(">Q")
_UNSHARED = {ErrorCode.OVERLOADED, ErrorCode.DEADLINE_EXCEEDED, ErrorCode.CANCELLED}
"""Failures of one caller's own budget: whoever waited along tries for itself."""

Fetch = Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Cached:
    """An answer: its bytes, when it was made (ms of the epoch), and where it is from."""

    value: bytes
    made_ms: int
    hit: bool = False
    stale: bool = False
    why_stale: str | None = None


class _Flight(msgspec.Struct):
    id: str
    failure: Failure | None = None


class SharedCache:
    """A cache of one kind of answer.

    Args:
        answers, flights: buckets for the answers and the leases; None: within the process only.
        name: in figures.
        local_bytes: of answers kept in this process.
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
        self._local: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._local_bytes = local_bytes
        self._held_bytes = 0
        self._clock = clock
        self._running: dict[str, tuple[asyncio.Task[Cached], list[int]]] = {}

    @classmethod
    async def over(cls, bus: Bus, name: str, *, stale_s: float, max_bytes: int) -> SharedCache:
        """Shared over the bus, or local where the server keeps no KV."""
        try:
            answers = await bus.key_value(f"{name}_answers", ttl_s=stale_s, max_bytes=max_bytes)
            flights = await bus.key_value(
                f"{name}_flights", ttl_s=FLIGHT_TTL_S, max_bytes=8 * 2**20
            )
        except Fault as fault:
            log.warning("no shared cache (%s): every worker keeps its own", fault.failure.message)
            return cls(name=name)
        return cls(answers, flights, name=name)

    async def get(self, question: str, fetch: Fetch, *, fresh_s: float, stale_s: float) -> Cached:
        """The answer to a question, from memory or by `fetch`.

        Args:
            question: everything that the answer depends on.
            fresh_s: how old an answer may be; 0 asks anew, but still at most once at a time.
            stale_s: how old one may be where fetching fails.

        Raises:
            Fault: of `fetch`, where no answer is young enough.
        """
        outcome = "error"
        try:
            found = await self._get(question, fetch, fresh_s, stale_s)
            outcome = "stale" if found.stale else "hit" if found.hit else "miss"
            return found
        finally:
            count_lookup(self._name, outcome)

    async def _get(self, question: str, fetch: Fetch, fresh_s: float, stale_s: float) -> Cached:
        key = hashlib.sha256(question.encode()).hexdigest()[:40]
        while True:
            known = await self._look(key)
            if known is not None and self._age_s(known) < fresh_s:
                return Cached(known[1], known[0], hit=True)
            leading = key not in self._running
            try:
                return await self._join(key, lambda: self._fly(key, fetch, fresh_s))
            except Fault as fault:
                if not leading and fault.code in _UNSHARED:
                    continue
                if known is not None and self._age_s(known) < stale_s:
                    return Cached(known[1], known[0], True, True, fault.failure.message)
                raise

    async def _join(self, key: str, start: Callable[[], Awaitable[Cached]]) -> Cached:
        """Run once for all who ask now; ends when the last of them went away."""
        running = self._running.get(key)
        if running is None:
            task = asyncio.ensure_future(start())
            running = self._running[key] = (task, [0])
            task.add_done_callback(lambda _: self._running.pop(key, None))
        task, waiting = running
        waiting[0] += 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise Fault(ErrorCode.CANCELLED, "The request was cancelled.") from None
            raise
        finally:
            waiting[0] -= 1
            if not waiting[0] and not task.done():
                task.cancel()

    async def _fly(self, key: str, fetch: Fetch, fresh_s: float) -> Cached:
        """Ask the upstream, unless another worker is asking."""
        if self._flights is None:
            return await self._fetch(key, fetch)
        mine = _Flight(secrets.token_hex(8))
        waited_for: str | None = None
        pause_s = _POLL_MIN_S
        while True:
            try:
                revision = await self._flights.create(key, encode(mine))
                if revision is None:
                    entry = await self._flights.get(key)
                    other = decode(entry.value, _Flight) if entry is not None else None
            except Fault:
                return await self._fetch(key, fetch)  # no KV: not a reason to fail
            if revision is not None:
                known = await self._look(key)
                if known is not None and self._age_s(known) < fresh_s:
                    await self._release(key)
                    return Cached(known[1], known[0], hit=True)
                return await self._lead(key, mine, fetch)
            if other is not None and other.failure is not None:
                if other.id == waited_for and other.failure.code not in _UNSHARED:
                    raise Fault.of(other.failure)
                # A failure of before this request: nobody is asking now.
                await self._release(key)
                continue
            waited_for = other.id if other is not None else waited_for
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_MAX_S, pause_s * 1.5)
            known = await self._look(key)
            if known is not None and self._age_s(known) < fresh_s:
                return Cached(known[1], known[0], hit=True)

    async def _lead(self, key: str, mine: _Flight, fetch: Fetch) -> Cached:
        try:
            found = await self._fetch(key, fetch)
        except Fault as fault:
            # Left for those who wait; the next question takes it away.
            mine.failure = fault.failure
            await self._quietly(self._flights, "put", key, encode(mine))
            raise
        except BaseException:
            await asyncio.shield(self._release(key))
            raise
        await self._release(key)
        return found

    async def _fetch(self, key: str, fetch: Fetch) -> Cached:
        value = await fetch()
        made_ms = int(self._clock() * 1000)
        self._keep(key, made_ms, value)
        await self._quietly(self._answers, "put", key, _HEADER.pack(made_ms) + value)
        return Cached(value, made_ms)

    async def _look(self, key: str) -> tuple[int, bytes] | None:
        local = self._local.get(key)
        if local is not None:
            self._local.move_to_end(key)
        if self._answers is None:
            return local
        try:
            entry = await self._answers.get(key)
        except Fault:
            return local
        if entry is None or len(entry.value) < _HEADER.size:
            return local
        made_ms = int(_HEADER.unpack_from(entry.value)[0])
        if local is not None and local[0] >= made_ms:
            return local
        return made_ms, entry.value[_HEADER.size :]

    def _keep(self, key: str, made_ms: int, value: bytes) -> None:
        old = self._local.pop(key, None)
        self._held_bytes += len(value) - (len(old[1]) if old else 0)
        self._local[key] = (made_ms, value)
        while self._held_bytes > self._local_bytes and self._local:
            _, (_, dropped) = self._local.popitem(last=False)
            self._held_bytes -= len(dropped)

    def _age_s(self, known: tuple[int, bytes]) -> float:
        return self._clock() - known[0] / 1000

    async def _release(self, key: str) -> None:
        await self._quietly(self._flights, "delete", key)

    async def _quietly(self, bucket: KeyValue | None, verb: str, *arguments: Any) -> None:
        if bucket is not None:
            try:
                await getattr(bucket, verb)(*arguments)
            except Fault as fault:
                log.debug("%s: %s", verb, fault.failure.message)

"""A world of one seed: a clock that jumps to the next timer, and a bus and a store with faults.

    def scenario(world: World) -> Coroutine: ...
    simulate(scenario, seed=7)      # the same seed is the same run

Nothing waits in real time: when all tasks wait for timers, the clock moves to the first one.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar
from unittest import mock

from searchbus_bus import MemoryBroker
from searchbus_bus.store.keyvalue import Entry, MemoryKeyValue
from searchbus_bus.transport import Message
from searchbus_contracts import ErrorCode, Fault

T = TypeVar("T")
EPOCH_S = 1_700_000_000.0
ENOUGH_S = 100_000.0
"""Of virtual time: a scenario that is not done by then never ends."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1_000.0

    def time(self) -> float:
        """Seconds of the virtual clock."""
        return self._now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, work: Callable[..., T], *arguments: Any
    ) -> asyncio.Future[T]:
        """Run the work now: a thread would end at any virtual time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def _run_once(self) -> None:
        # The names of asyncio's base loop since Python 3.4.
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0]._cancelled:
            # Left to the base loop, it would wait in real time for the timer behind it.
            heapq.heappop(timers)._scheduled = False
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if not self._ready and timers:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, timers[0]._when)
            if self._now_s > ENOUGH_S:
                raise AssertionError("the scenario does not end")
        super()._run_once()  # type: ignore[misc]


class _Ordered(dict[Any, None]):
    """A set that keeps its order, so that a run can be repeated."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)


class FaultyBroker(MemoryBroker):
    """A broker that loses, doubles and delays messages; delays change their order.

    Args:
        chance: decides what becomes of each message.
    """

    def __init__(self, chance: random.Random, **options: Any) -> None:
        super().__init__(**options)
        self.subscriptions = _Ordered()  # type: ignore[assignment]
        self.chance = chance
        self.lost = self.doubled = 0.0
        """Probabilities."""
        self.longest_delay_s = 0.0

    def route(self, message: Message) -> None:
        """Deliver a message now, later, twice or never."""
        if self.chance.random() < self.lost:
            return
        for _ in range(2 if self.chance.random() < self.doubled else 1):
            delay_s = self.chance.random() * self.longest_delay_s
            if delay_s:
                asyncio.get_running_loop().call_later(delay_s, super().route, message)
            else:
                super().route(message)

    def heal(self) -> None:
        """No more faults."""
        self.lost = self.doubled = self.longest_delay_s = 0.0


class FaultyStore(MemoryKeyValue):
    """A bucket whose operations take time, and fail before or after they took effect."""

    def __init__(self, chance: random.Random, *, ttl_s: float) -> None:
        super().__init__(ttl_s=ttl_s, clock=lambda: asyncio.get_running_loop().time())
        self.chance = chance
        self.failing = 0.0
        self.longest_delay_s = 0.0

    async def get(self, key: str) -> Entry | None:
        """See KeyValue."""
        return await self._faulty(lambda: MemoryKeyValue.get(self, key))

    async def put(self, key: str, value: bytes) -> int:
        """See KeyValue."""
        return await self._faulty(lambda: MemoryKeyValue.put(self, key, value))

    async def create(self, key: str, value: bytes) -> int | None:
        """See KeyValue: in one step, as on the server."""

        async def step() -> int | None:
            taken = await MemoryKeyValue.get(self, key) is not None
            return None if taken else self._write(key, value)

        return await self._faulty(step)

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """See KeyValue: in one step, as on the server."""

        async def step() -> int | None:
            entry = await MemoryKeyValue.get(self, key)
            return self._write(key, value) if entry and entry.revision == revision else None

        return await self._faulty(step)

    async def _round_trip(self) -> None:
        """The delay is before the step and after it, never within."""
        if self.away:
            raise _unreachable()

    async def _faulty(self, step: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self.chance.random() * self.longest_delay_s)
        fails, took_effect = self.chance.random() < self.failing, self.chance.random() < 0.5
        if fails and not took_effect:
            raise _unreachable()
        result = await step()
        await asyncio.sleep(self.chance.random() * self.longest_delay_s)
        if fails:
            raise _unreachable()
        return result


def _unreachable() -> Fault:
    return Fault(ErrorCode.UNAVAILABLE, "The key-value store is unreachable.")


class World:
    """What a scenario uses."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.chance = random.Random(seed)
        self.loop = loop

    def now_s(self) -> float:
        """Seconds of the epoch, by the virtual clock."""
        return EPOCH_S + self.loop.time()

    def broker(self, **options: Any) -> FaultyBroker:
        """A broker of this world."""
        return FaultyBroker(self.chance, **options)

    def store(self, *, ttl_s: float) -> FaultyStore:
        """A bucket of this world."""
        return FaultyStore(self.chance, ttl_s=ttl_s)


@contextmanager
def virtual_time(loop: VirtualLoop) -> Iterator[None]:
    """The functions of `time` follow the loop's clock."""
    with (
        mock.patch.object(time, "monotonic", loop.time),
        mock.patch.object(time, "perf_counter", loop.time),
        mock.patch.object(time, "time", lambda: EPOCH_S + loop.time()),
        mock.patch.object(time, "time_ns", lambda: int((EPOCH_S + loop.time()) * 1e9)),
    ):
        yield


def simulate(scenario: Callable[[World], Awaitable[T]], *, seed: int) -> T:
    """Run a scenario in a world of this seed."""
    loop = VirtualLoop()
    state = random.getstate()
    random.seed(seed)  # jitter and the choice among the members of a queue group
    try:
        with virtual_time(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:

            async def run() -> T:
                return await scenario(World(seed, loop))

            return runner.run(run())
    finally:
        random.setstate(state)


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that runs on the virtual clock."""

    @wraps(test)
    def run(**given: Any) -> None:
        loop = VirtualLoop()
        random.seed(1)
        with virtual_time(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(test(**given))

    return run

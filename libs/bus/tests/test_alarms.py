"""Alarms: they ring at their time unless they are cancelled, with few timers of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from searchbus_bus.alarms import LATE_S, Alarms, alarms


class Loop:
    """Stands for the event loop: its time passes only in `run`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.made = 0
        self._timers: list[Timer] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        self.made += 1
        self._timers.append(Timer(self.now_s + delay_s, call))
        return self._timers[-1]

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end_s = self.now_s + seconds
        while due := [t for t in self._timers if not t.cancelled and t.at_s <= end_s]:
            first = min(due, key=lambda timer: timer.at_s)
            self._timers.remove(first)
            self.now_s = max(self.now_s, first.at_s)
            first.call()
        self.now_s = end_s


class Timer:
    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s, self.call, self.cancelled = at_s, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Bell:
    """An alarm that writes down when it rang."""

    def __init__(self, rung: list[tuple[str, float]], name: str, loop: Loop) -> None:
        self._rung, self._name, self._loop = rung, name, loop

    def ring(self) -> None:
        self._rung.append((self._name, round(self._loop.now_s - 1000, 3)))


class Broken:
    def ring(self) -> None:
        raise ValueError


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


@pytest.fixture
def found(loop: Any) -> Alarms:
    return Alarms(loop)


def test_alarms_ring_at_their_times(loop, found):
    """Whichever was set first; one that is set for an earlier time than all others too."""
    rung: list[tuple[str, float]] = []
    for name, after_s in (("late", 15.0), ("early", 0.02), ("past", -1.0), ("between", 5.0)):
        found.set(Bell(rung, name, loop), after_s)
    loop.run(20)
    assert rung == [("past", 0.0), ("early", 0.02), ("between", 5.0), ("late", 15.0)]


def test_cancelled_alarm_does_not_ring(loop, found):
    """Nor a second time after it has rung; to cancel it then is harmless."""
    rung: list[tuple[str, float]] = []
    kept, dropped = Bell(rung, "kept", loop), Bell(rung, "dropped", loop)
    found.set(kept, 1.0)
    found.set(dropped, 1.0)
    found.cancel(dropped)
    loop.run(2)
    found.cancel(kept)
    loop.run(20)
    assert rung == [("kept", 1.0)]


def test_one_that_rings_may_cancel_and_set_others(loop, found):
    """All three are due at the same moment."""
    rung: list[tuple[str, float]] = []
    second, third = Bell(rung, "second", loop), Bell(rung, "third", loop)

    class First:
        def ring(self) -> None:
            found.cancel(second)
            found.set(third, 1.0)

    for alarm in (First(), second):
        found.set(alarm, 1.0)
    loop.run(3)
    assert rung == [("third", 2.0)]


def test_one_that_fails_keeps_no_other_from_ringing(loop, found, caplog):
    """It is logged."""
    rung: list[tuple[str, float]] = []
    found.set(Broken(), 1.0)
    found.set(Bell(rung, "next", loop), 1.0)
    found.set(Bell(rung, "later", loop), 2.0)
    loop.run(3)
    assert [name for name, _ in rung] == ["next", "later"]
    assert "an alarm failed" in caplog.text


def test_alarms_that_are_cancelled_need_few_timers(loop, found):
    """Ten thousand requests in a second, each with two alarms that it cancels."""
    for _ in range(10_000):
        short, long = Bell([], "short", loop), Bell([], "long", loop)
        found.set(long, 15.0)
        found.set(short, 0.02)
        loop.run(0.0001)
        found.cancel(short)
        found.cancel(long)
    assert loop.made < 200


def test_alarms_that_all_ring_are_looked_at_together(loop, found):
    """Ten thousand due within a second: not one look for each; none rings too late."""
    rung: list[tuple[str, float]] = []
    for number in range(10_000):
        found.set(Bell(rung, str(number / 10_000), loop), number / 10_000)
    loop.run(2)
    assert loop.made < 1000
    assert all(-0.001 <= at_s - float(name) < 1.1 * LATE_S for name, at_s in rung)
    assert len(rung) == 10_000


def test_alarms_that_are_due_together_ring_in_the_order_of_their_times(loop, found):
    """Not in the order in which they were set: a worker's limit is before that of its caller."""
    rung: list[tuple[str, float]] = []
    for name, after_s in (("second", 0.05), ("first", 0.049)):
        found.set(Bell(rung, name, loop), after_s)
    loop.now_s += 1  # the loop was busy
    loop.run(1)
    assert [name for name, _ in rung] == ["first", "second"]


async def test_alarms_belong_to_the_running_loop():
    """Those of a loop in another thread are others."""

    async def other() -> Alarms:
        return alarms()

    own = alarms()
    assert alarms() is own
    assert await asyncio.to_thread(asyncio.run, other()) is not own
    event = asyncio.Event()

    class Rings:
        def ring(self) -> None:
            event.set()

    alarms().set(Rings(), 0.01)
    await event.wait()

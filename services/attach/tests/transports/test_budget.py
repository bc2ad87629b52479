"""What one server may send."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import pytest

from searchbus_attach.transports import budget as module
from searchbus_attach.transports.budget import HOLD_S, MAX_EVENT_BYTES, Budget


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only while the budget sleeps."""
    found = SimpleNamespace(now_s=1000.0)

    async def sleep(seconds: float) -> None:
        found.now_s += seconds

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: found.now_s))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep))
    return found


async def test_what_is_read_is_slowed_down_and_not_lost(clock):
    """A hundred answers of five million bytes take about a minute; the first ones come in a burst,
    between whose parts other servers have most of the time."""
    budget, started_s = Budget("x"), clock.now_s
    for _ in range(4):
        await budget.pace(5_000_000)
    assert 0.25 < clock.now_s - started_s < 0.5
    for _ in range(96):
        await budget.pace(5_000_000)
    assert 50 < clock.now_s - started_s < 70
    assert budget.dropped == 0


async def test_small_messages_and_values_cost_time_too(clock):
    """Our work for them does not depend on their bytes alone."""
    budget, started_s = Budget("x"), clock.now_s
    for _ in range(100_000):
        await budget.pace(20)
    first_s = clock.now_s - started_s
    assert first_s > 10
    for _ in range(10):
        budget.note_values(200_000)
        await budget.pace(0)
    assert clock.now_s - started_s - first_s > 5


def test_messages_that_nobody_waits_for_are_limited_by_their_number(clock):
    """After a burst so many as there is time for."""
    budget = Budget("x")
    assert sum(budget.takes("event", 100) for _ in range(1_200)) == 1_000
    clock.now_s += 0.1
    assert sum(budget.takes("event", 100) for _ in range(100)) == 50
    assert budget.dropped == 250


@pytest.mark.parametrize(("kind", "taken"), [("log", 8), ("event", 100)])
def test_log_messages_are_limited_by_their_bytes_too(clock, kind, taken):
    """They are passed on to the caller, over the bus."""
    budget = Budget("x")
    assert sum(budget.takes(kind, MAX_EVENT_BYTES) for _ in range(100)) == taken


def test_a_large_message_that_is_not_an_answer_is_dropped(clock):
    """No notification has a use for so much."""
    assert not Budget("x").takes("event", MAX_EVENT_BYTES + 1)


async def test_a_server_of_which_too_much_is_dropped_is_held_for_a_while(clock):
    """Its connections are ended; afterwards it has a new chance, and can be held again."""
    budget, connection = Budget("x"), anyio.CancelScope()
    with budget.ending(connection):
        for _ in range(2):
            budget.drop("event", 8 * 2**20)
        assert (budget.problem, budget.held_s, connection.cancel_called) == ("", 0, False)
        budget.drop("event", 8 * 2**20)
    assert connection.cancel_called
    assert budget.held_s == HOLD_S
    assert "3 dropped messages" in budget.problem
    clock.now_s += HOLD_S
    assert (budget.problem, budget.held_s) == ("", 0)
    for _ in range(3):
        budget.drop("event", 8 * 2**20)
    assert budget.held_s == HOLD_S


@pytest.mark.parametrize(("events_per_s", "held"), [(2_000, False), (4_000, True)])
def test_a_server_with_much_progress_is_not_held(clock, events_per_s, held):
    """Some report each of their steps; what nobody could use is dropped and counted."""
    budget = Budget("x")
    for _ in range(60):
        clock.now_s += 1
        for _ in range(events_per_s):
            budget.takes("event", 200)
    assert budget.dropped > 60_000
    assert bool(budget.problem) is held


def test_a_refused_answer_counts_for_more_than_an_event(clock):
    """It was read and looked through before."""
    held = {}
    for kind in ("answer", "event"):
        budget = Budget("x")
        while not budget.problem:
            budget.drop(kind, 100)
        held[kind] = budget.dropped
    assert held["answer"] * 100 < held["event"]

"""What is done with a connection while it is up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

from searchbus_attach.upstream import following as module
from searchbus_attach.upstream.connection import ServerConnection
from searchbus_attach.upstream.following import Following, Pauses, RunningCalls, about
from searchbus_testing import until

from ..conftest import plain


class Session:
    """Answers a ping with `answer`: an exception, or None; without an end where that is `...`."""

    def __init__(self) -> None:
        self.answer: Any = None

    async def ask(self, method: str, params: dict[str, Any]) -> None:
        assert method == "ping"
        if self.answer is ...:
            await asyncio.Event().wait()
        if self.answer is not None:
            raise self.answer


class SomeLists:
    """Lists that note how often they are read."""

    def __init__(self) -> None:
        self.reads = 0
        self.cost_s = 0.0
        self.stale = False
        self.failure: Any = None  # an exception; a reading without an end where it is `...`

    async def read(self, session: Session) -> None:
        self.reads += 1
        if self.failure is ...:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure


class World:
    """A connection that is followed."""

    def __init__(self, poll_s: float = 300.0, **keys: Any) -> None:
        self.lists, self.calls = SomeLists(), RunningCalls()
        self.connection = ServerConnection()
        self.session = self.connection.session = Session()
        self.connection.follow_changes = self._follow_changes
        server = plain({}, **{"idle_s": 0, **keys})
        self.following = Following(server, self.lists, self.calls, poll_s=poll_s)
        self.task: asyncio.Task[None] | None = None

    async def _follow_changes(self) -> None:
        """It has nothing to say by itself."""

    def start(self) -> World:
        self.task = asyncio.create_task(self.following.follow(self.connection))
        return self


@pytest.fixture
async def new_world(monkeypatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(module, "DEBOUNCE_S", 0.1)
    made: list[World] = []

    def make(**keys: Any) -> World:
        made.append(World(**keys))
        return made[-1]

    yield make
    for world in made:
        world.connection.give_up()
        if world.task is not None:
            await world.task


async def test_the_lists_are_read_from_time_to_time(new_world):
    """Whatever the server says."""
    world = new_world(poll_s=0.05).start()
    await until(lambda: world.lists.reads >= 3)


async def test_many_notices_cause_one_reading(new_world):
    """And one that comes while the lists are read, another."""
    world = new_world().start()
    for _ in range(20):
        world.connection.note_change()
    await until(lambda: world.lists.reads == 1)
    assert not world.connection.list_changed
    world.connection.note_change()
    await until(lambda: world.lists.reads == 2)


async def test_costly_lists_are_not_read_at_each_notice(new_world):
    """A server could take all of our time with it."""
    world = new_world().start()
    world.lists.cost_s = 1e6
    world.connection.note_change()
    await until(lambda: world.lists.reads == 1)
    world.connection.note_change()
    await asyncio.sleep(5 * module.DEBOUNCE_S)
    assert (world.lists.reads, world.connection.list_changed) == (1, True)


async def test_sessions_of_one_server_have_one_calm_time(new_world):
    """It could take our time for each of its callers."""
    one, other = new_world(), new_world()
    other.connection.notes = one.connection.notes
    one.start(), other.start()
    one.lists.cost_s = 1e6
    one.connection.note_change()
    await until(lambda: one.lists.reads == 1)
    other.connection.note_change()
    await asyncio.sleep(5 * module.DEBOUNCE_S)
    assert (other.lists.reads, other.connection.list_changed) == (0, True)


async def test_calm_time_of_costly_lists_ends_by_the_next_poll(new_world):
    """The readings of many sessions add up, for one that begins after them too."""
    world = new_world(poll_s=0.05)
    world.lists.cost_s = 1e6
    world.start()
    await until(lambda: world.lists.reads >= 3)
    assert world.connection.notes.budget.calm_until_s <= time.monotonic() + 0.05


@pytest.mark.parametrize(
    ("failure", "over"),
    [(MCPError(-32603, "boom"), False), (MCPError(CONNECTION_CLOSED, "Connection closed"), True)],
    ids=["refused", "closed"],
)
async def test_lists_that_cannot_be_read_are_stale(new_world, failure, over):
    """The connection is given up only where it ended."""
    world = new_world(poll_s=0.05)
    world.lists.failure = failure
    world.start()
    await until(lambda: world.lists.stale)
    await until(lambda: world.connection.over is over)


async def test_a_command_that_nobody_uses_is_not_followed_any_more(new_world):
    """The connection is good, and is closed by who opened it."""
    world = new_world(idle_s=0.05).start()
    await world.task
    assert not world.connection.over


@pytest.mark.parametrize(
    "answer", [None, MCPError(METHOD_NOT_FOUND, "no method ping")], ids=["answers", "refuses"]
)
async def test_a_server_that_answers_a_ping_lives(new_world, answer):
    """Whatever it answers."""
    world = new_world()
    world.session.answer = answer
    world.connection.doubtful.set()
    await world.following.ping(world.connection)
    assert (world.connection.doubtful.is_set(), world.connection.over) == (False, False)


async def test_a_server_that_does_not_answer_a_ping_hangs(new_world):
    """Unless it answers a call meanwhile."""
    world = new_world(ping_timeout_s=0.05)
    world.session.answer = ...
    world.connection.active_s = float("inf")
    await world.following.ping(world.connection)
    assert not world.connection.over
    world.connection.active_s = 0.0
    await world.following.ping(world.connection)
    assert world.connection.problem.told == "it answered neither a call nor a ping"
    assert world.connection.hung


async def test_a_connection_that_is_over_does_not_wait_for_a_ping(new_world):
    """Calls wait for the next connection."""
    world = new_world(ping_timeout_s=600).start()
    world.session.answer = ...
    world.connection.doubtful.set()
    await until(lambda: not world.connection.doubtful.is_set())
    world.connection.give_up("the session ended")
    await until(world.task.done)
    assert world.connection.problem == "the session ended"


async def test_a_server_that_hangs_is_found_while_its_lists_are_read(new_world):
    """Its calls do not wait for the limit of a list, which is longer than that of a ping."""
    world = new_world(ping_timeout_s=0.05, list_timeout_s=600, poll_s=0.05)
    world.session.answer = world.lists.failure = ...
    world.start()
    await until(lambda: world.lists.reads == 1)
    world.connection.doubtful.set()
    await until(world.task.done)
    assert world.connection.hung


class OneCall:
    """The part of a Call that is used."""


def test_calls_count_while_they_run():
    """Also one that fails."""
    calls = RunningCalls()
    short, long = OneCall(), OneCall()
    assert (len(calls), calls.only) == (0, None)
    with calls.including(short):
        assert calls.only is short
        with calls.including(long):
            assert (len(calls), calls.only) == (2, None)
        assert calls.only is short
    assert len(calls) == 0


def test_a_server_is_unused_since_its_last_call(monkeypatch):
    """And not while one runs."""
    now = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(module, "time", now)
    calls = RunningCalls()
    now.monotonic = lambda: 130.0
    assert calls.unused_s == 30.0
    with calls.including(OneCall()):
        assert calls.unused_s == 0.0
        now.monotonic = lambda: 140.0
    assert calls.unused_s == 0.0
    now.monotonic = lambda: 141.0
    assert calls.unused_s == 1.0


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(module._jitter, "uniform", lambda least, most: 1.0)


def test_a_pause_doubles_up_to_a_minute():
    """While no connection can be made; a lost one is replaced at once."""
    pauses = Pauses()
    found = [pauses.after(was_up=False, early=False) for _ in range(8)]
    assert found == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert pauses.after(was_up=True, early=False) == 0.0
    assert pauses.after(was_up=False, early=False) == 1.0


def test_connections_that_are_lost_early_have_a_pause_from_the_second_on():
    """A server that ends soon after each start would be started all the time."""
    pauses = Pauses()
    assert [pauses.after(was_up=True, early=True) for _ in range(4)] == [0.0, 1.0, 2.0, 4.0]
    assert pauses.after(was_up=True, early=False) == 0.0
    assert pauses.after(was_up=True, early=True) == 0.0


def test_times_are_less_or_more_by_a_fifth(monkeypatch):
    """So that many servers are not asked at one moment."""
    monkeypatch.undo()
    times = {about(100.0) for _ in range(50)}
    assert 80.0 <= min(times) <= max(times) <= 120.0
    assert len(times) > 1

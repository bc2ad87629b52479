"""Two workers share the callers of a server that keeps state: each caller has one session."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest

from searchbus_attach.sessions.leases import Holder, lease_key
from searchbus_attach.sessions.sessions import Sessions
from searchbus_attach.upstream.session import ServerRequest
from searchbus_bus import InstanceGoneError
from searchbus_bus.client.fleet import State
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ResourceReadReply,
    ResourceReadRequest,
    ToolCall,
    ToolReply,
)
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)
from searchbus_testing import until

from ..conftest import EVERYBODY, PROGRAM, World, children, plain, plain_keys

KEY = lease_key("plain", "test")


@dataclass
class Pair:
    """Two workers with one file on one bus."""

    a: World
    b: World

    @property
    def store(self) -> MemoryKeyValue:
        """The bucket of the leases."""
        return self.a.broker.buckets["sb_attach_sessions"]

    @property
    def sessions(self) -> tuple[int, int]:
        """How many callers have their session at each worker."""
        return self.a.sessions(), self.b.sessions()


@pytest.fixture
async def new_pair(new_world):
    async def make(**servers) -> Pair:
        a = await new_world(**servers)
        pair = Pair(a, await new_world(broker=a.broker))
        for world in (pair.a, pair.b):
            for name in servers:
                await world.until_up(name)
        return pair

    return make


@pytest.fixture
async def pair(new_pair):
    return await new_pair(plain=plain_keys(state="stateful"))


async def session_at(world: World, caller: str = "test") -> int:
    """The process of a caller's session, asked at one worker."""
    reply = await world.call("plain", "environment", actor=Actor(subject=caller, roles=("*",)))
    return reply.structured["group"]


async def test_a_caller_has_one_session_whichever_worker_is_asked(pair):
    """Another caller has another one."""
    first = await session_at(pair.a)
    assert [await session_at(world) for world in (pair.b, pair.a, pair.b)] == [first] * 3
    assert pair.sessions == (1, 0)
    other = await session_at(pair.b, "ann")
    assert await session_at(pair.a, "ann") == other != first
    assert pair.sessions == (1, 1)


async def test_a_session_of_a_caller_keeps_only_the_names_of_tools(pair):
    """Thousands of definitions for each of many callers were a gigabyte."""
    await session_at(pair.a)
    (session,) = pair.a.gateway._attached["plain"]._sessions._sessions.values()
    tools = session.upstream.lists.tools
    assert (tools.descriptors, tools.own_names["echo"]) == ((), "echo")


async def test_first_calls_at_the_same_moment_open_one_session(pair):
    """Of each caller."""
    callers = [f"caller-{number % 5}" for number in range(30)]
    found = await asyncio.gather(
        *(session_at((pair.a, pair.b)[n % 2], caller) for n, caller in enumerate(callers))
    )
    assert len(set(zip(callers, found, strict=True))) == len(set(callers))
    assert sum(pair.sessions) == 5


async def test_progress_and_log_lines_come_from_the_worker_with_the_session(pair, tmp_path):
    """In their order; and who gives up ends the work there."""
    await session_at(pair.a)
    events = []
    call = asyncio.create_task(
        pair.b.ask(
            "sb.v1.tool.plain.slow", ToolCall(tool="slow"), ToolReply, on_event=events.append
        )
    )
    await until(lambda: len(events) >= 4)
    steps = [event.progress for event in events if event.kind == "progress"]
    assert steps == sorted(steps)
    assert "step 0" in [event.data for event in events if event.kind == "log"]
    call.cancel()
    await until(lambda: pair.a.serving.in_flight == pair.b.serving.in_flight == 0)


async def test_failures_of_the_call_are_the_callers(pair):
    """Those of the server too."""
    await session_at(pair.a)
    with pytest.raises(Fault) as fault:
        await pair.b.call("plain", "die")
    assert (fault.value.code, fault.value.failure.retryable) == (ErrorCode.UNAVAILABLE, False)
    assert "may have been done" in str(fault.value)


async def test_the_session_of_a_worker_that_is_gone_is_opened_anew(pair, caplog):
    """By the first call; the other worker closes its own when it is back."""
    first = await session_at(pair.a)
    pair.a.worker_bus.transport.sever()
    second = await session_at(pair.b)
    assert second != first
    assert "is gone; its state is lost" in caplog.text
    pair.a.worker_bus.transport.restore()
    await until(lambda: pair.sessions == (0, 1))
    assert await session_at(pair.a) == second
    await until(lambda: len(children()) == 3)


async def test_a_session_goes_on_while_the_store_is_away(pair, caplog):
    """A new one is opened without a lease, and closed where another worker has the lease later."""
    first = await session_at(pair.a)
    pair.store.away = True
    pair.a.leases.renew_soon()
    assert await session_at(pair.a) == first
    assert await session_at(pair.b) != first
    assert "opened without a lease" in caplog.text
    pair.store.away = False
    await pair.b.leases.renew()
    assert pair.sessions == (1, 0)
    assert await session_at(pair.b) == first


async def test_a_lost_session_is_closed_and_its_calls_fail(pair):
    """At once, so that the caller can call again."""
    await session_at(pair.a)
    events = []
    call = asyncio.create_task(
        pair.a.ask(
            "sb.v1.tool.plain.slow", ToolCall(tool="slow"), ToolReply, on_event=events.append
        )
    )
    await until(lambda: bool(events))  # the server has it
    await pair.store.put(KEY, b"another")
    pair.a.leases.renew_soon()
    with pytest.raises(Fault) as fault:
        await call
    assert fault.value.code == ErrorCode.UNAVAILABLE
    assert pair.sessions == (0, 0)
    await until(lambda: len(children()) == 2)


async def test_the_end_of_an_unused_session_frees_its_lease(new_pair):
    """Another worker opens the next one."""
    pair = await new_pair(plain=plain_keys(state="stateful", idle_s=0.3))
    first = await session_at(pair.a)

    async def free() -> bool:
        return await pair.store.keys() == []

    await until(free)
    assert pair.sessions == (0, 0)
    # How many sessions there are now, the machine decides: this one ends soon, too.
    assert await session_at(pair.b) != first


async def ended(worker: World) -> None:
    """As at the end of its process."""
    for attached in worker.gateway._attached.values():
        await attached._sessions.stop()


async def test_a_worker_that_ends_gives_its_sessions_up(pair):
    """When they are closed."""
    first = await session_at(pair.a)
    await ended(pair.a)
    assert await pair.store.keys() == []
    assert await session_at(pair.b) != first
    assert pair.sessions == (0, 1)


async def test_a_worker_that_stops_ends_its_calls_before_another_takes_over(pair):
    """The next call of the same caller waits for them."""
    first = await session_at(pair.a)
    running = asyncio.create_task(pair.a.call("plain", "slow"))
    await until(lambda: pair.a.serving.in_flight == 1)
    stopping = asyncio.create_task(pair.a.serving.drain(600.0))
    await until(lambda: len(own_subscriptions(pair)) == 0)
    waiting = asyncio.create_task(session_at(pair.b))
    await until(lambda: pair.b.serving.in_flight == 1)
    await asyncio.sleep(0.5)
    assert not waiting.done()
    assert not running.done()
    running.cancel()
    await stopping
    await ended(pair.a)
    assert await waiting != first


def own_subscriptions(pair: Pair) -> list[str]:
    """The subjects at which the first worker receives calls of others."""
    own = f"sb.v1.at.{pair.a.serving.instance}."
    return [s.subject for s in pair.a.broker.subscriptions if s.subject.startswith(own)]


async def test_calls_for_a_worker_that_hangs_end_by_their_deadlines(pair):
    """Until its lease has expired."""
    first = await session_at(pair.a)
    for subscription in pair.a.broker.subscriptions:
        if subscription.owner is pair.a.worker_bus.transport:
            subscription._callback = ignore
    with pytest.raises(Fault) as fault:
        await pair.b.call("plain", "environment", timeout_s=1.0)
    assert fault.value.code == ErrorCode.DEADLINE_EXCEEDED
    await pair.store.delete(KEY)
    assert await session_at(pair.b) != first


async def ignore(message) -> None:
    """Of a worker that hangs."""


async def test_a_server_that_changes_keeps_a_lease_for_each_session(pair):
    """The old session's end does not free the lease of the new one."""
    first = await session_at(pair.a)
    pair.a.write(plain=plain_keys(state="stateful", max_in_flight=7))
    # A worker that has not read the file yet may open a session, which ends when it reads it.
    for world in (pair.a, pair.b):
        await until(lambda world=world: world.gateway.server("plain").max_in_flight == 7)
    second = await other_session_at(pair.a, first)
    await until(lambda: len(children()) == 3)
    assert await other_session_at(pair.b, first) == second


async def other_session_at(world: World, old: int) -> int:
    """As `session_at`, once the old session has ended."""
    found = old

    async def changed() -> bool:
        nonlocal found
        with suppress(Fault):  # of a call that meets its end
            found = await session_at(world)
        return found != old

    await until(changed)
    return found


async def test_what_was_sent_on_is_not_sent_on_again(pair):
    """A worker that does not have the session any more refuses it; the sender looks again."""
    await session_at(pair.a)
    with pytest.raises(Fault, match="moves to another worker") as fault:
        await pair.b.ask(
            "sb.v1.tool.plain.echo", ToolCall(tool="echo"), ToolReply, instance_only=True
        )
    assert (fault.value.code, fault.value.failure.retryable) == (ErrorCode.UNAVAILABLE, True)


async def test_what_was_sent_to_a_worker_that_may_open_the_session_is_done(pair):
    """Its lease may just have ended."""
    reply = await pair.b.ask(
        "sb.v1.tool.plain.environment", ToolCall(tool="environment"), ToolReply,
        instance_only=True,
    )  # fmt: skip
    assert reply.structured
    assert pair.sessions == (0, 1)


async def test_without_a_place_the_lease_is_left_to_others(new_pair):
    """A worker whose callers are all busy says so, and another one has space."""
    pair = await new_pair(plain=plain_keys(state="stateful", max_callers=1))
    busy = asyncio.create_task(pair.a.call("plain", "slow"))
    await until(lambda: pair.a.sessions() == 1)
    with pytest.raises(Fault) as fault:
        await pair.a.ask(
            "sb.v1.tool.plain.echo", ToolCall(tool="echo"), ToolReply, instance_only=True,
            actor=Actor(subject="ann", roles=("*",)),
        )  # fmt: skip
    assert fault.value.code == ErrorCode.OVERLOADED
    await session_at(pair.b, "ann")
    assert pair.sessions == (1, 1)
    busy.cancel()


async def test_a_call_through_a_view_reaches_the_session(pair):
    """Under the server's own name for the tool."""
    first = await session_at(pair.a)
    text = pair.a.path.read_text() + '\n[views.some]\nallow = ["plain__*"]\n'
    changed = pair.a.path.with_suffix(".new")
    changed.write_text(text)
    changed.replace(pair.a.path)
    await pair.b.until_offered("some")
    reply = await pair.b.call("some", "plain__environment")
    assert reply.structured["group"] == first


async def test_a_reply_that_the_other_worker_shaped_is_no_mismatch(new_pair):
    """It is not the server's own any more, and its good schema stays for another view."""
    schema = {"type": "object", "required": ["environment", "limits"]}
    tool = {"name": "environment", "inputSchema": {"type": "object"}, "outputSchema": schema}
    keys = plain_keys({"tools": [tool]}, state="stateful", view={"results": {"fields": ["group"]}})
    pair = await new_pair(plain=keys)
    assert await session_at(pair.a) == await session_at(pair.b)
    assert pair.sessions == (1, 0)
    for world in (pair.a, pair.b):
        fittings = world.gateway._attached["plain"]._fittings
        assert {name: one.missed for name, one in fittings.items()} == {"environment": False}


async def test_prompts_resources_and_completions_follow_the_session(new_pair):
    """The worker without it opens none."""
    program = str(PROGRAM.with_name("broad_server.py"))
    keys = {"command": sys.executable, "args": ["-I", "-S", program], "state": "stateful"}
    pair = await new_pair(broad=keys)
    address = "searchbus://attach/broad/note:///by-number"
    requests = [
        ("resource.broad.read", ResourceReadRequest(uri=f"{address}/7"), ResourceReadReply),
        ("prompt.broad.get", PromptGetRequest(prompt="greet", arguments={"name": "Ada"}),
         PromptGetReply),
        ("prompt.broad.complete", CompleteRequest(name="greet", argument="tone", value="g"),
         CompleteReply),
        ("resource.broad.complete",
         CompleteRequest(name=f"{address}/{{number}}", argument="number", value="2"),
         CompleteReply),
    ]  # fmt: skip
    for rest, message, reply_type in requests:
        replies = [
            await world.ask(f"sb.v1.{rest}", message, reply_type) for world in (pair.a, pair.b)
        ]
        assert replies[0] == replies[1]
    assert (pair.a.sessions("broad"), pair.b.sessions("broad")) == (1, 0)


class Gone(Sessions):
    """Sessions whose caller's is at a worker that is gone."""

    def __init__(self, received: bool) -> None:
        bus = Mock()
        bus.send = AsyncMock(side_effect=InstanceGoneError("gone", received=received))
        bus.fleet.check = AsyncMock(return_value=State.GONE)
        super().__init__(plain(), None, None, bus)
        self.taken = 0

    async def of(self, caller):
        return Holder("old", 1)

    async def take_over(self, caller, holder):
        self.taken += 1


@pytest.mark.parametrize(
    ("received", "may_repeat", "retryable", "rounds"),
    [(False, False, True, 3), (True, True, True, 3), (True, False, False, 1)],
)
async def test_a_call_that_a_dead_worker_had_is_repeated_if_it_may_be(
    received, may_repeat, retryable, rounds
):
    """The session is taken over in any case; and nobody looks for ever."""
    gone = Gone(received)
    call = SimpleNamespace(actor=EVERYBODY, instance_only=False, service="attach", remaining_s=60.0)
    wanted = ServerRequest(
        "tools/call", None, None, "tool", "plain", "x", None, ToolReply, may_repeat
    )
    with pytest.raises(Fault) as fault:
        await gone.request(call, wanted)
    assert (fault.value.code, fault.value.failure.retryable) == (ErrorCode.UNAVAILABLE, retryable)
    assert gone.taken == rounds

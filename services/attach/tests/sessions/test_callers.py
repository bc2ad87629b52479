"""Servers that keep state in a session: one for each caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from searchbus_attach.sessions.leases import Leases
from searchbus_attach.sessions.sessions import Sessions, send_on
from searchbus_attach.upstream.connection import ConnectionContext
from searchbus_attach.upstream.session import ServerRequest
from searchbus_attach.upstream.upstream import Upstream
from searchbus_bus import (
    ActorSigner,
    ActorVerifier,
    Call,
    InstanceGoneError,
    MemoryBroker,
    Request,
    Worker,
    new_actor_keys,
)
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    TextContent,
    ToolAnnotations,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)
from searchbus_testing import until

from ..conftest import call_tool, children, plain
from ..upstream.test_upstream import Caller, text


@pytest.fixture
async def new_sessions(tmp_path) -> AsyncIterator:
    context = ConnectionContext(logs=tmp_path / "logs")
    bus = MemoryBroker().connect()
    leases = await Leases.over(bus)
    leases.start("here")
    made: list[Sessions] = []

    def new(check=None, **keys) -> Sessions:
        server = plain({}, state="stateful", **keys)
        made.append(
            Sessions(
                server,
                lambda _: Upstream(server, context, on_list=lambda _: None),
                leases,
                bus,
                check,
            )
        )
        return made[-1]

    yield new
    for sessions in made:
        await sessions.stop()
    assert children() == []
    assert not leases._held
    await leases.stop()
    context.reaper.close()


async def test_each_caller_has_a_process_of_its_own(new_sessions):
    """The same one for all calls."""
    sessions = new_sessions()
    for name in ("ann", "bob", "ann"):
        assert (
            text(await call_tool(await sessions.of(name), Caller(), "echo", {"text": name})) == name
        )
    assert (len(sessions._sessions), len(children())) == (2, 2)


async def test_the_connection_that_was_used_least_recently_makes_space(new_sessions):
    """Where as many sessions as there may be have one."""
    sessions = new_sessions(max_callers=2)
    for name in ("ann", "bob", "ann", "eve"):
        await call_tool(await sessions.of(name), Caller(), "echo", {"text": "x"})
    await until(lambda: len(children()) == 2)
    first = {*children()}
    for name in ("eve", "ann"):
        await call_tool(await sessions.of(name), Caller(), "echo", {"text": "x"})
    assert {*children()} == first


async def test_who_cannot_use_the_server_takes_nobodys_place(new_sessions):
    """Such as a caller who is not signed in."""

    async def check(caller: str) -> None:
        if caller != "ann":
            raise Fault(ErrorCode.LOGIN_REQUIRED, "sign in")

    sessions = new_sessions(check, max_callers=1)
    await call_tool(await sessions.of("ann"), Caller(), "echo", {"text": "x"})
    with pytest.raises(Fault, match="sign in"):
        await sessions.of("bob")
    assert len(sessions._sessions) == 1
    first = {*children()}
    await call_tool(await sessions.of("ann"), Caller(), "echo", {"text": "x"})
    assert {*children()} == first


async def test_connections_with_calls_are_not_closed(new_sessions):
    """A further caller fails at once."""
    sessions = new_sessions(max_callers=1)
    upstream = await sessions.of("ann")
    running = asyncio.create_task(call_tool(upstream, Caller(), "slow", {}))
    await until(lambda: sessions.in_flight == 1)
    with pytest.raises(Fault, match="for 1 callers") as fault:
        await sessions.of("bob")
    assert fault.value.code == ErrorCode.OVERLOADED
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_after_its_end_no_connection_is_opened(new_sessions):
    """For a call that comes while the server's declaration changes; the lease is left to others."""
    sessions = new_sessions()
    await sessions.stop()
    with pytest.raises(Fault) as fault:
        await sessions.of("ann")
    assert (fault.value.code, fault.value.failure.retryable) == (ErrorCode.UNAVAILABLE, True)
    assert children() == []


async def test_what_a_caller_does_not_use_is_closed(new_sessions):
    """After the idle time."""
    sessions = new_sessions(idle_s=0.2)
    await call_tool(await sessions.of("ann"), Caller(), "echo", {"text": "x"})

    async def closed() -> bool:
        sessions.end_unused()
        return not sessions._sessions and not children()

    await until(closed)


ANN = Actor(subject="ann", roles=("STAFF",))
PRIVATE, PUBLIC = new_actor_keys()


class Fleet:
    """Two workers: one sends each call on to the other, which says who called."""

    def __init__(self, **options) -> None:
        self.broker = MemoryBroker()
        self.options = options
        self.seen: list[Call] = []
        self.gone: list[bool] = []
        self.edge = self.broker.connect(signer=ActorSigner(PRIVATE))

    async def __aenter__(self) -> Fleet:
        self.first_bus = self.broker.connect(**self.options)

        async def hand_on(call: Call, request: ToolCall) -> ToolReply:
            wanted = ServerRequest(
                "tools/call", None, None, "tool", "things", request.tool, request, ToolReply
            )
            try:
                return await send_on(self.first_bus, call, wanted, self.second.instance)
            except InstanceGoneError as gone:
                self.gone.append(gone.received)
                raise

        async def do(call: Call, request: ToolCall) -> ToolReply:
            self.seen.append(call)
            await call.progress(1, 2, "half")
            await call.log("info", "line")
            if request.tool == "fails":
                raise Fault("upstream_failed", "It failed.")
            return ToolReply(content=(TextContent(text=call.actor.subject),))

        self.second_bus = self.broker.connect(**self.options)
        self.first = await self.first_bus.serve(worker_with(hand_on))
        self.second = await self.second_bus.serve(worker_with(do))
        return self

    async def __aexit__(self, *_) -> None:
        for serving in (self.first, self.second):
            await serving.drain(1.0)

    async def call(self, tool: str = "works", actor: Actor | None = ANN, **options) -> ToolReply:
        return await self.edge.send(
            Request(
                f"sb.v1.tool.things.{tool}", ToolCall(tool=tool), ToolReply, service="attach",
                instance=self.first.instance, timeout_s=60.0, actor=actor, **options,
            )
        )  # fmt: skip


def worker_with(handler) -> Worker:
    worker = Worker("attach")
    for name in ("works", "fails"):
        worker.add_tool(
            ToolDescriptor(
                name=name, toolset="things", title=name, description=name, input_schema={"type": "object"},
                annotations=ToolAnnotations(),
            ),
            handler,
        )  # fmt: skip
    return worker


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("actor", [ANN, None])
async def test_the_caller_is_passed_on(verified, actor):
    """Signed where the bus asks for it; who is nobody stays so."""
    options = {"verifier": ActorVerifier(PUBLIC)} if verified else {}
    async with Fleet(**options) as fleet:
        await fleet.call(actor=actor)
        (call,) = fleet.seen
        assert call.actor == (actor or Actor())
        assert call.instance_only
        assert call.remaining_s < 60.0


async def test_events_come_before_the_reply():
    """All of them, in their order."""
    events = []
    async with Fleet() as fleet:
        reply = await fleet.call(on_event=events.append)
    assert reply.content[0].text == "ann"
    assert [event.kind for event in events] == ["progress", "log"]


async def test_failures_are_passed_on():
    """With their code."""
    async with Fleet() as fleet:
        with pytest.raises(Fault, match="It failed") as fault:
            await fleet.call("fails")
    assert fault.value.code == "upstream_failed"


async def test_a_worker_that_has_left_is_reported():
    """So that its session can be taken over; it did not get the call."""
    async with Fleet() as fleet:
        await fleet.second.drain(1.0)
        with pytest.raises(Fault):
            await fleet.call()
    assert set(fleet.gone) == {False}
    assert fleet.seen == []

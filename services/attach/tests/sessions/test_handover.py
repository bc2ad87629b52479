"""A call that is sent on to another worker."""

from __future__ import annotations

import pytest

from searchbus_attach.sessions.handover import Handover, Onward
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
    Fault,
    TextContent,
    ToolAnnotations,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)

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
        handover = Handover(self.first_bus)

        async def send_on(call: Call, request: ToolCall) -> ToolReply:
            onward = Onward("tool", "things", request.tool, request, ToolReply)
            try:
                return await handover.send(call, onward, self.second.instance)
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
        self.first = await self.first_bus.serve(worker_with(send_on))
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

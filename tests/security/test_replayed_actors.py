"""Headers of a signed actor that were captured on a real server are worth nothing elsewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from searchbus_bus import (
    ActorSigner,
    ActorVerifier,
    Bus,
    Call,
    Worker,
    connect,
    endpoint,
    new_actor_keys,
)
from searchbus_bus.transport import Message
from searchbus_contracts import Actor, ErrorCode, Failure, decode, encode
from searchbus_contracts.headers import ACTOR, ACTOR_GRANT, ACTOR_KEY, ACTOR_SIG, ERROR_CODE, REQ_ID
from searchbus_contracts.ingest import DeleteReply, DeleteRequest
from searchbus_contracts.web import WebSearchReply, WebSearchRequest
from searchbus_testing import until

PRIVATE, PUBLIC = new_actor_keys()
ALICE = Actor(subject="alice", roles=("searchbus-operator",))
TIMEOUT_S = 60
VALID_S = TIMEOUT_S + 5.0


@dataclass
class Clock:
    """Now, and what a test adds to it."""

    added_s: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.added_s


class Retrieval:
    """What a captured header would be worth most for."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    @endpoint(required_roles=("searchbus-operator",))
    async def delete(self, call: Call, request: DeleteRequest) -> DeleteReply:
        self.deleted += request.document_ids
        return DeleteReply(documents=1)


class Searches:
    """A service that passes its caller on to another."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @endpoint
    async def search(self, call: Call, request: WebSearchRequest) -> WebSearchReply:
        reply = WebSearchReply(results=(), provider="test", fetched_at_ms=1)
        if request.query == "pass on":
            await self._bus.request(
                self._bus.subjects.endpoint("retrieval", "delete"),
                DeleteRequest(collection="c", document_ids=("passed on",)), DeleteReply,
                service="retrieval", timeout_s=TIMEOUT_S, actor=call.actor,
            )  # fmt: skip
        return reply


@dataclass
class Scene:
    """A server with an edge, two services, and somebody who sees everything."""

    edge: Bus
    attacker: Bus
    retrieval: Retrieval
    clock: Clock
    captured: list[Message] = field(default_factory=list)

    async def capture(self, query: str = "q") -> Message:
        """The headers of a request of the edge to `ddg.search`, or of what ddg passes on."""
        self.captured.clear()
        await self.edge.request(
            self.edge.subjects.endpoint("ddg", "search"), WebSearchRequest(query=query),
            WebSearchReply, service="ddg", timeout_s=TIMEOUT_S, actor=ALICE,
        )  # fmt: skip
        wanted = "delete" if query == "pass on" else "search"

        def found() -> list[Message]:
            return [m for m in self.captured if m.subject.endswith(wanted) and ACTOR in m.headers]

        await until(found)
        self.retrieval.deleted.clear()
        return found()[0]

    async def send(self, subject: str, body: Any, headers: dict[str, str]) -> str:
        """Send a request with these headers, as they are; the code of its outcome."""
        data = body if isinstance(body, bytes) else encode(body)
        replies: list[Message] = []

        async def note(message: Message) -> None:
            replies.append(message)

        inbox = "_INBOX.attacker.x"
        subscription = await self.attacker.transport.subscribe(inbox, note)
        await self.attacker.transport.flush()
        await self.attacker.transport.publish(subject, data, reply=inbox, headers=headers)
        await until(lambda: replies)
        await subscription.unsubscribe()
        if ERROR_CODE not in replies[0].headers:
            return "ok"
        return decode(replies[0].data, Failure).code


@pytest.fixture
async def scene(own_nats_server: Callable[..., Any]) -> AsyncIterator[Scene]:
    """The server has no permissions: what holds here are the signatures alone."""
    url, clock = own_nats_server().url, Clock()
    verifier = ActorVerifier(PUBLIC, clock=clock)
    buses = {
        name: await connect(url, name=name, **options)
        for name, options in {
            "edge": {"signer": ActorSigner(PRIVATE, clock=time.time)},
            "ddg": {"verifier": verifier}, "retrieval": {"verifier": verifier}, "attacker": {},
        }.items()
    }  # fmt: skip
    retrieval = Retrieval()
    for name, part in (("retrieval", retrieval), ("ddg", Searches(buses["ddg"]))):
        worker = Worker(name)
        worker.add(part)
        await buses[name].serve(worker)
    found = Scene(buses["edge"], buses["attacker"], retrieval, clock)

    async def note(message: Message) -> None:
        found.captured.append(message)

    await buses["attacker"].transport.subscribe("sb.v1.>", note)
    await buses["attacker"].transport.flush()
    yield found
    for bus in buses.values():
        await bus.close()


DELETE = "sb.v1.retrieval.delete"
BODY = DeleteRequest(collection="c", document_ids=("x",))


async def test_a_captured_header_does_not_open_another_service(scene):
    """Whatever of it is sent: alone, with its key, as a grant signed by hand."""
    seen = await scene.capture()
    headers = dict(seen.headers)
    assert {ACTOR, ACTOR_SIG, ACTOR_KEY, REQ_ID} <= set(headers)
    assert await scene.send(DELETE, BODY, headers) == ErrorCode.FORBIDDEN
    assert await scene.send(DELETE, seen.data, headers) == ErrorCode.FORBIDDEN
    without_key = {name: value for name, value in headers.items() if name != ACTOR_KEY}
    assert await scene.send(DELETE, BODY, without_key) == ErrorCode.FORBIDDEN
    assert await scene.send(DELETE, BODY, {ACTOR: headers[ACTOR]}) == ErrorCode.FORBIDDEN
    assert scene.retrieval.deleted == []


async def test_a_captured_header_is_for_one_request(scene):
    """Not for another id, another body, or another actor."""
    seen = await scene.capture()
    headers, own = dict(seen.headers), WebSearchRequest(query="other")
    assert await scene.send(seen.subject, own, headers) == ErrorCode.FORBIDDEN
    other_id = headers | {REQ_ID: "0" * 32}
    assert await scene.send(seen.subject, seen.data, other_id) == ErrorCode.FORBIDDEN
    root = headers | {ACTOR: Actor(subject="root", roles=("*",)).to_header()}
    assert await scene.send(seen.subject, seen.data, root) == ErrorCode.FORBIDDEN


async def test_a_captured_header_ends(scene):
    """The same request, after its deadline."""
    seen = await scene.capture()
    scene.clock.added_s = VALID_S + 1
    assert await scene.send(seen.subject, seen.data, dict(seen.headers)) == ErrorCode.FORBIDDEN


async def test_a_captured_delegation_is_for_one_request_too(scene):
    """What a worker passed on is replayed to another service, with another id, and too late."""
    seen = await scene.capture("pass on")
    headers = dict(seen.headers)
    assert {ACTOR, ACTOR_SIG, ACTOR_GRANT} <= set(headers)
    assert ACTOR_KEY not in headers
    search = ("sb.v1.ddg.search", WebSearchRequest(query="q"))
    assert await scene.send(*search, headers) == ErrorCode.FORBIDDEN
    assert await scene.send(DELETE, BODY, headers) == ErrorCode.FORBIDDEN
    other_id = headers | {REQ_ID: "0" * 32}
    assert await scene.send(DELETE, seen.data, other_id) == ErrorCode.FORBIDDEN
    assert scene.retrieval.deleted == []
    scene.clock.added_s = VALID_S + 1
    assert await scene.send(DELETE, seen.data, headers) == ErrorCode.FORBIDDEN
    assert scene.retrieval.deleted == []


async def test_the_same_request_within_its_time_is_accepted(scene):
    """The same request again within its time: refused things above are not refused for their form."""
    seen = await scene.capture("pass on")
    assert await scene.send(DELETE, seen.data, dict(seen.headers)) == "ok"
    assert scene.retrieval.deleted == ["passed on"]

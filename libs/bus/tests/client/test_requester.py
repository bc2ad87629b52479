"""Attempts, retries, cancellations and headers of a request."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw
from msgspec.structs import replace

from searchbus_bus import (
    ActorSigner,
    ActorVerifier,
    InstanceGoneError,
    MemoryBroker,
    Request,
    new_actor_keys,
)
from searchbus_bus.client.parts import MAX_BODY_BYTES
from searchbus_bus.client.requester import Requester
from searchbus_bus.identity import Sent, received_delegation
from searchbus_contracts import Actor, Cancel, Fault, Subjects, decode, encode

REQUEST = Request("sb.v1.echo.say", {"a": 1}, Raw, service="echo", timeout_s=60.0)
PRIVATE, PUBLIC = new_actor_keys()


def failing(code: str) -> tuple[bytes, dict[str, str]]:
    return encode(Fault(code, "m").failure), {"Nats-Service-Error-Code": code}


def script(transport, *outcomes):
    """Reply to each attempt with the next of (data, headers), or lose the connection."""
    remaining = list(outcomes)

    async def on_publish(message):
        if ".ctl.cancel." in message.subject:
            return
        outcome = remaining.pop(0)
        if outcome == "lost":
            transport.lose_connection()
        else:
            await transport.reply(message, outcome[0], **outcome[1])

    transport.on_publish = on_publish


def requester(transport, signer=None):
    return Requester(transport, Subjects(), signer)


async def fault_of(awaitable) -> Fault:
    with pytest.raises(Fault) as caught:
        await awaitable
    return caught.value


async def test_a_request_carries_its_id_and_its_deadline(transport):
    """And its message as JSON."""
    script(transport, (b"reply", {}))
    assert await requester(transport).send(REQUEST) == b"reply"
    (sent,) = transport.published
    assert sent.data == b'{"a":1}'
    assert len(sent.headers["Req-Id"]) == 32
    assert 0 < int(sent.headers["Timeout-Ms"]) <= 60_000
    assert "Actor" not in sent.headers


@pytest.mark.parametrize("code", ["unavailable", "overloaded"])
async def test_what_did_no_work_is_sent_to_another_worker(transport, code):
    """Once; the id stays the same."""
    script(transport, failing(code), (b"reply", {}))
    assert await requester(transport).send(REQUEST) == b"reply"
    first, second = transport.requests()
    assert first.headers["Req-Id"] == second.headers["Req-Id"]
    assert first.reply != second.reply


@pytest.mark.parametrize("code", ["unavailable", "overloaded"])
async def test_the_second_failure_is_the_callers(transport, code):
    """There is no third attempt."""
    script(transport, failing(code), failing(code))
    assert (await fault_of(requester(transport).send(REQUEST))).code == code
    assert len(transport.requests()) == 2


@pytest.mark.parametrize("code", ["not_found", "internal", "upstream_limited", "rate_limited"])
async def test_other_failures_are_not_repeated(transport, code):
    """The work may have been done."""
    script(transport, failing(code))
    assert (await fault_of(requester(transport).send(REQUEST))).code == code


async def test_what_must_not_be_repeated_is_not(transport):
    """Although its worker is away: it may have begun the work."""
    fault = Fault("unavailable", "m", retryable=False)
    script(transport, (encode(fault.failure), {"Nats-Service-Error-Code": "unavailable"}))
    caught = await fault_of(requester(transport).send(REQUEST))
    assert not caught.failure.retryable


async def test_what_one_instance_alone_can_do_is_sent_there_once(transport):
    """Whatever it replies; the queue group is not asked. The receiver can see that."""
    alone = replace(REQUEST, instance="i", instance_only=True)
    script(transport, failing("unavailable"))
    caught = await fault_of(requester(transport).send(alone))
    assert (caught.code, isinstance(caught, InstanceGoneError)) == ("unavailable", False)
    (sent,) = transport.requests()
    assert sent.subject == "sb.v1.at.i.echo.say"
    assert sent.headers["Instance-Only"] == "1"


async def test_an_instance_that_left_before_the_request_came_is_named(transport):
    """The work was surely not done."""
    script(transport, (b"", {"Status": "503"}))
    caught = await fault_of(
        requester(transport).send(replace(REQUEST, instance="i", instance_only=True))
    )
    assert isinstance(caught, InstanceGoneError)
    assert (caught.received, caught.failure.retryable) == (False, True)
    assert len(transport.requests()) == 1


async def test_after_a_lost_connection_an_idempotent_request_is_repeated(transport):
    """A few times."""
    for losses in (1, 3):
        script(transport, *["lost"] * losses, (b"reply", {}))
        assert await requester(transport).send(REQUEST) == b"reply"
    script(transport, *["lost"] * 4)
    assert "connection" in str(await fault_of(requester(transport).send(REQUEST)))


async def test_after_a_lost_connection_any_other_request_fails(transport):
    """It may have been done."""
    script(transport, "lost")
    fault = await fault_of(requester(transport).send(replace(REQUEST, idempotent=False)))
    assert (fault.code, len(transport.requests())) == ("unavailable", 1)
    assert not fault.failure.retryable


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_process_that_stops_ends_its_requests(transport, idempotent):
    """Nobody else is asked, and the work is cancelled; a later request is not sent at all."""
    asking = requester(transport)
    task = asyncio.create_task(asking.send(replace(REQUEST, idempotent=idempotent)))
    while not transport.published:
        await asyncio.sleep(0)
    asking.inbox.stop()
    fault = await fault_of(task)
    assert (fault.code, fault.failure.retryable) == ("unavailable", idempotent)
    advice = "Try again." if idempotent else "It may have done the work. Look before you repeat it."
    assert fault.failure.message.endswith(f"had the request. {advice}")
    await asyncio.sleep(0)
    assert len(transport.cancellations()) == 1
    later = await fault_of(asking.send(replace(REQUEST, idempotent=idempotent)))
    assert (later.code, later.failure.retryable) == ("unavailable", True)
    assert len(transport.requests()) == 1


async def test_while_workers_reconnect_unavailable_is_tried_again(transport, monkeypatch):
    """Within the budget: they come back a moment later than this process."""
    monkeypatch.setattr("searchbus_bus.client.requester._RECONNECTING_S", 600.0)
    script(transport, "lost", *[failing("unavailable")] * 4, (b"reply", {}))
    assert await requester(transport).send(REQUEST) == b"reply"


async def test_no_attempt_starts_without_a_connection(transport):
    """The failure names the bus."""
    transport.connected = False
    assert (await fault_of(requester(transport).send(REQUEST))).code == "unavailable"
    assert transport.published == []


async def test_a_lost_connection_is_waited_for_only_for_a_moment():
    """Then requests fail at once: their deadlines may be minutes away."""
    broker = MemoryBroker()
    bus = broker.connect(reconnect_grace_s=0.05)
    bus.transport.sever()
    with pytest.raises(Fault, match="not reachable"):
        await bus.send(replace(REQUEST, timeout_s=3600.0))
    bus = broker.connect(reconnect_grace_s=3600.0)
    bus.transport.sever()
    request = asyncio.create_task(bus.send(replace(REQUEST, timeout_s=7200.0)))
    await asyncio.sleep(0.01)
    bus.transport.restore()
    with pytest.raises(Fault, match="No worker is running"):
        await request


async def test_the_deadline_is_a_failure_and_cancels_the_work(transport):
    """The worker receives the request's id."""
    fault = await fault_of(requester(transport).send(replace(REQUEST, timeout_s=0.02)))
    assert fault.code == "deadline_exceeded"
    assert "echo" in fault.failure.message
    await asyncio.sleep(0)
    (cancellation,) = transport.cancellations()
    assert cancellation.subject == "sb.v1.ctl.cancel.echo"
    sent = transport.requests()[0]
    assert decode(cancellation.data, Cancel).req_id == sent.headers["Req-Id"]


async def test_a_cancelled_caller_cancels_the_work(transport):
    """At the service."""
    task = asyncio.create_task(requester(transport).send(REQUEST))
    while not transport.published:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert len(transport.cancellations()) == 1


async def test_a_body_over_the_limit_is_not_sent(transport):
    """The failure names the limit."""
    fault = await fault_of(
        requester(transport).send(replace(REQUEST, message="x" * MAX_BODY_BYTES))
    )
    assert fault.code == "invalid_argument"
    assert "64 MiB" in fault.failure.message
    assert transport.published == []


async def test_the_edge_signs_the_actor(transport):
    """A worker verifies it."""
    script(transport, (b"reply", {}))
    actor = Actor(subject="alice", roles=("A",))
    await requester(transport, ActorSigner(PRIVATE)).send(replace(REQUEST, actor=actor))
    headers = transport.published[0].headers
    sent = Sent.of(REQUEST.subject, headers["Req-Id"], transport.published[0].data)
    ActorVerifier(PUBLIC).verify(headers, sent)


@pytest.mark.parametrize(("subject", "passed_on"), [("alice", True), ("mallory", False)])
async def test_a_worker_passes_on_the_caller_that_it_received(transport, subject, passed_on):
    """For another actor it has no signature."""
    received = Sent("sb.v1.outer.say", "1", "0" * 64)
    headers = ActorSigner(PRIVATE).headers(Actor(subject="alice"), received)
    delegation = ActorVerifier(PUBLIC).verify(headers, received)
    token = received_delegation.set(delegation)
    try:
        script(transport, (b"reply", {}))
        await requester(transport).send(replace(REQUEST, actor=Actor(subject=subject)))
    finally:
        received_delegation.reset(token)
    headers = transport.published[0].headers
    assert Actor.from_header(headers["Actor"]).subject == subject
    assert ("Actor-Sig" in headers) is passed_on
    assert "Actor-Key" not in headers

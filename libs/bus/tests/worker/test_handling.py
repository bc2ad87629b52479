"""One request at a worker: every outcome is one reply or one failure."""

from __future__ import annotations

import asyncio
import hashlib
import time

import pytest

from searchbus_bus import ActorSigner, ActorVerifier, new_actor_keys
from searchbus_bus.client.requester import Requester
from searchbus_bus.identity import Sent
from searchbus_bus.transport import Message
from searchbus_bus.worker.handling import Handling, Replies, req_id_of
from searchbus_contracts import Actor, Failure, Fault, Parts, Subjects, decode, encode
from searchbus_testing import until

PRIVATE, PUBLIC = new_actor_keys()


def message(data: bytes = b"{}", **headers: str) -> Message:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Message("sb.v1.echo.say", data, reply="inbox.1", headers=named)


async def handle(transport, handler, request=None, *, cancelled=False, verifier=None):
    """The reply or the Failure that one request gets."""
    requester = Requester(transport, Subjects())
    handling = Handling("echo", Replies(transport, requester.inbox), requester, verifier)
    await handling.handle(request or message(), handler, cancelled=lambda: cancelled)
    (sent,) = [m for m in transport.published if m.subject == "inbox.1"]
    failed = "Nats-Service-Error-Code" in sent.headers
    return decode(sent.data, Failure) if failed else sent.data


async def echo(call, body):
    return {"body": body.decode(), "actor": call.actor.subject, "subject": call.subject}


async def test_the_handler_gets_the_body_and_the_call(transport):
    """Its return value is the reply."""
    assert await handle(transport, echo, message(b'"x"')) == encode(
        {"body": '"x"', "actor": "anonymous", "subject": "sb.v1.echo.say"}
    )


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (Fault("not_found", "No."), "not_found", "No."),
        (RuntimeError("secret-canary"), "internal", "trace "),
        (TimeoutError("of the handler"), "internal", "trace"),
        (TypeError("x"), "internal", "trace"),
    ],
)
async def test_an_exception_is_a_typed_failure(transport, raised, code, text):
    """Only the message of a Fault leaves the process."""

    async def fail(call, body):
        raise raised

    failure = await handle(transport, fail)
    assert failure.code == code
    assert text in failure.message
    assert "canary" not in failure.message


async def test_a_reply_that_cannot_be_encoded_is_an_internal_error(transport):
    """The caller waits for one."""

    async def odd(call, body):
        return object()

    assert (await handle(transport, odd)).code == "internal"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Timeout_Ms": "soon"}, "invalid_argument"),
        ({"Actor": "{"}, "invalid_argument"),
        ({"Parts": "x"}, "invalid_argument"),
        ({"Deadline_Ms": str(int(time.time() * 1000) - 1000)}, "deadline_exceeded"),
        ({"Timeout_Ms": "0"}, "deadline_exceeded"),
    ],
)
async def test_malformed_and_expired_requests_do_not_reach_the_handler(transport, headers, code):
    """No work is started for them."""

    async def never(call, body):
        raise AssertionError

    assert (await handle(transport, never, message(**headers))).code == code


async def test_the_deadline_ends_the_handler(transport):
    """It is cancelled."""
    ended = []

    async def slow(call, body):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    failure = await handle(transport, slow, message(Timeout_Ms="20"))
    assert (failure.code, failure.retryable, ended) == ("deadline_exceeded", True, [True])


@pytest.mark.parametrize(("cancelled", "code"), [(True, "cancelled"), (False, "unavailable")])
async def test_a_cancelled_handler_says_who_cancelled_it(transport, cancelled, code):
    """The caller, or the worker that stops: then another may take the request."""
    started = asyncio.Event()

    async def slow(call, body):
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(handle(transport, slow, cancelled=cancelled))
    await started.wait()
    task.cancel()
    assert (await task).code == code


async def test_only_a_signed_actor_is_accepted_where_a_verifier_is_set(transport):
    """The header alone proves nothing."""
    verifier = ActorVerifier(PUBLIC)
    header = Actor(subject="alice").to_header()
    sent = Sent.of("sb.v1.echo.say", "r", b"{}")
    named = ActorSigner(PRIVATE).headers(Actor(subject="alice"), sent)
    signed = Message(sent.subject, b"{}", "inbox.1", {"Req-Id": "r", **named})
    assert b'"alice"' in await handle(transport, echo, signed, verifier=verifier)
    transport.published.clear()
    refused = await handle(transport, echo, message(Actor=header), verifier=verifier)
    assert refused.code == "forbidden"


async def test_a_request_in_parts_is_fetched_from_the_caller(transport):
    """By number; the handler gets the whole body."""
    parts = [b"ab", b"cd", b"e"]
    digest = hashlib.sha256(b"abcde").hexdigest()

    async def reply(sent: Message) -> None:
        if sent.subject == "inbox.1.part":
            await transport.reply(sent, parts[int(sent.data)])

    transport.on_publish = reply
    header = encode(Parts(subject="inbox.1.part", count=3, size_bytes=5, sha256=digest)).decode()
    assert b'"abcde"' in await handle(transport, echo, message(b"", Parts=header))


async def test_parts_elsewhere_than_at_the_reply_subject_are_refused(transport):
    """A caller cannot make the worker publish where only the worker may."""
    header = encode(Parts(subject="sb.v1.ddg.fetch", count=1, size_bytes=1, sha256="0" * 64))
    refused = await handle(transport, echo, message(b"", Parts=header.decode()))
    assert refused.code == "invalid_argument"
    assert [m.subject for m in transport.published] == ["inbox.1"]


def test_the_id_of_a_request_is_cut():
    """It comes from any peer."""
    assert req_id_of(message(Req_Id="x" * 100)) == "x" * 64
    assert req_id_of(message()) == ""


async def test_large_replies_are_encoded_in_different_turns_of_the_loop(transport):
    """A worker with many of them answers pings in between."""
    turns, encoded_in = 0, []

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def page(call, body):
        return "w" * 600_000

    def note(sent: Message) -> None:
        if sent.headers.get("Chunk", "").startswith("0/") or "Size" in sent.headers:
            encoded_in.append(turns)

    transport.on_publish = note
    requester = Requester(transport, Subjects())
    handling = Handling("echo", Replies(transport, requester.inbox), requester)
    counting = asyncio.create_task(count())
    handled = [
        asyncio.create_task(handling.handle(message(Credit="1"), page, cancelled=lambda: False))
        for _ in range(8)
    ]
    await until(lambda: len(encoded_in) == 8)
    assert len(set(encoded_in)) == 8
    for task in (counting, *handled):
        task.cancel()
    await asyncio.wait([counting, *handled])

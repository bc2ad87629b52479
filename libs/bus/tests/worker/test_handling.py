"""One request at a worker: every outcome is one reply or one failure."""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import contextmanager

import pytest

from searchbus_bus import ActorSigner, ActorVerifier, Worker, new_actor_keys
from searchbus_bus.client import parts as client_parts
from searchbus_bus.client.inbox import Inbox
from searchbus_bus.client.parts import Assembly, ChunkMark
from searchbus_bus.client.requester import Requester
from searchbus_bus.identity import Sent
from searchbus_bus.transport import Message
from searchbus_bus.worker import handling as worker_handling
from searchbus_bus.worker.handling import Handling, Replies, req_id_of
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Failure,
    Fault,
    Parts,
    Subjects,
    ToolEvent,
    decode,
    encode,
)
from searchbus_contracts.subjects import is_credit_subject
from searchbus_testing import until

PRIVATE, PUBLIC = new_actor_keys()


def message(data: bytes = b"{}", **headers: str) -> Message:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Message("sb.v1.echo.say", data, reply="inbox.1", headers=named)


def handling_of(transport, verifier=None, **options) -> Handling:
    requester = Requester(transport, Subjects())
    worker = Worker("echo", **options)
    return Handling(worker, Replies(transport, requester.inbox), requester, verifier)


async def handle(transport, handler, request=None, *, cancelled=False, verifier=None, **options):
    """The reply or the Failure that one request gets."""
    handling = handling_of(transport, verifier, **options)
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


async def test_a_worker_may_have_a_limit_of_the_time_that_callers_give(transport):
    """For one that may not keep it busy for a day."""

    async def left(call, body):
        return call.remaining_s

    for given in ({"Timeout_Ms": "86400000"}, {"Deadline_Ms": str(10**15)}):
        reply = await handle(transport, left, message(**given), max_timeout_s=60.0)
        assert float(reply) <= 60
        transport.published.clear()


async def test_what_is_kept_for_a_request_is_kept_until_its_reply_is_sent(transport):
    """A large one waits for its receiver."""
    steps = []

    @contextmanager
    def keeping():
        steps.append("begin")
        yield
        steps.append("end")

    async def work(call, body):
        steps.append("work")

    transport.on_publish = lambda sent: steps.append("reply")
    await handle(transport, work, keeping=keeping)
    assert steps == ["begin", "work", "reply", "end"]


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


def in_parts(size_bytes: int) -> Message:
    """A request whose parts nobody sends, until `transport.on_publish` does."""
    parts = Parts(subject="inbox.1.part", count=64, size_bytes=size_bytes, sha256="0" * 64)
    return message(b"", Parts=encode(parts).decode())


async def test_requests_in_parts_have_a_limit_together_while_they_arrive(transport):
    """A request beyond it is refused before a part is fetched, until another one has ended."""
    handling = handling_of(transport)

    async def fetched(count: int) -> asyncio.Task[None]:
        began = asyncio.create_task(
            handling.handle(in_parts(40 * 2**20), echo, cancelled=lambda: True)
        )
        await until(lambda: len([m for m in transport.published if m.reply]) == count)
        return began

    first = await fetched(1)
    transport.published.clear()
    await handling.handle(in_parts(40 * 2**20), echo, cancelled=lambda: False)
    (refused,) = transport.published
    assert decode(refused.data, Failure).code == "overloaded"
    for count in (1, 2):
        first.cancel()
        await asyncio.wait([first])
        first = await fetched(count)
    first.cancel()
    await asyncio.wait([first])


async def test_a_caller_that_sends_no_further_part_does_not_keep_its_slot(transport, monkeypatch):
    """Its deadline may be far away."""
    monkeypatch.setattr(worker_handling, "PART_WAIT_S", 0.01)
    asked = in_parts(2**20)
    request = message(b"", Parts=asked.headers["Parts"], Timeout_Ms="3600000")
    failure = await handle(transport, echo, request)
    assert failure.code == "deadline_exceeded"
    assert "parts of the request did not arrive" in failure.message


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
    handling = handling_of(transport)
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


REQUEST = Message("sb.v1.echo.say", b"{}", reply="inbox.1")


async def test_a_small_reply_is_one_message(transport):
    """Without headers."""
    await Replies(transport, Inbox(transport)).reply(REQUEST, b"body")
    (sent,) = transport.published
    assert (sent.subject, sent.data, sent.headers) == ("inbox.1", b"body", {})


async def test_a_receiver_that_gives_no_credit_gets_all_parts_at_once(transport):
    """It can put them together."""
    transport.max_payload_bytes = 8 * 1024 + 3
    await Replies(transport, Inbox(transport)).reply(REQUEST, b"abcdefgh")
    marks = [ChunkMark.parse(m.headers["Chunk"]) for m in transport.published]
    assembly = Assembly(marks[0].count, marks[0].size_bytes, marks[0].sha256)
    bodies = [
        assembly.add(k.index, m.data) for k, m in zip(marks, transport.published, strict=True)
    ]
    assert bodies == [None, None, b"abcdefgh"]


PULLING = Message("sb.v1.echo.say", b"{}", reply="inbox.1", headers={"Credit": "1"})


class Sending:
    """A reply of eight parts on its way."""

    def __init__(self, transport) -> None:
        transport.max_payload_bytes = 8 * 1024 + 1
        self._transport = transport
        self.task = asyncio.create_task(
            Replies(transport, Inbox(transport)).reply(PULLING, b"abcdefgh")
        )

    async def credit(self, data: bytes, **headers: str) -> None:
        (announcement,) = [m for m in self._transport.published if m.reply]
        await self._transport.reply(announcement, data, **headers)

    async def parts(self, count: int) -> list[bytes]:
        """The parts that were sent, once there are so many, and a moment later."""
        await until(lambda: len(self._sent()) >= count)
        await asyncio.sleep(0.02)
        return self._sent()

    def _sent(self) -> list[bytes]:
        return [m.data for m in self._transport.published if "Chunk" in m.headers]


async def test_no_more_parts_are_sent_than_the_receiver_allows(transport):
    """First the size alone."""
    sending = Sending(transport)
    assert await sending.parts(0) == []
    (announcement,) = transport.published
    assert (announcement.subject, announcement.data) == ("inbox.1", b"")
    assert announcement.headers == {"Size": "8"}
    assert is_credit_subject(announcement.reply)
    await sending.credit(b"2")
    assert await sending.parts(2) == [b"a", b"b"]
    for old in (b"2", b"1"):
        await sending.credit(old)
    assert await sending.parts(2) == [b"a", b"b"]
    await sending.credit(b"5")
    await sending.credit(b"99")
    await sending.task
    assert await sending.parts(8) == [b"%c" % letter for letter in b"abcdefgh"]


@pytest.mark.parametrize(
    ("data", "headers"),
    [(b"0", {}), (b"x", {}), (b"-1", {}), ("²".encode(), {}), (b"", {"Status": "503"})],
)
async def test_a_receiver_that_wants_no_more_or_is_gone_ends_the_reply(transport, data, headers):
    """Also by what is no credit, and by the broker's word that nobody is there."""
    sending = Sending(transport)
    await sending.parts(0)
    await sending.credit(b"3")
    await sending.parts(3)
    await sending.credit(data, **headers)
    await sending.task
    assert await sending.parts(3) == [b"a", b"b", b"c"]


async def test_a_receiver_that_gives_no_more_credit_ends_the_reply(transport, monkeypatch):
    """It was killed; the request would keep its slot until its deadline."""
    sending = Sending(transport)
    await sending.parts(0)
    await sending.credit(b"3")
    await sending.parts(3)
    monkeypatch.setattr(client_parts, "CREDIT_S", 0.01)
    await sending.credit(b"4")
    await sending.task
    assert await sending.parts(4) == [b"a", b"b", b"c", b"d"]


async def test_a_failure_stands_in_headers_and_body(transport):
    """The header is one line of ASCII, for other libraries."""
    fault = Fault(ErrorCode.NOT_FOUND, "No document 'é'.\nTry another.")
    await Replies(transport, Inbox(transport)).fail(REQUEST, fault)
    (sent,) = transport.published
    assert sent.headers["Nats-Service-Error-Code"] == "not_found"
    assert sent.headers["Nats-Service-Error"] == "No document '?'. Try another."
    assert decode(sent.data, Failure) == fault.failure


async def test_a_long_message_is_cut_in_the_header_only(transport):
    """The body has all of it."""
    await Replies(transport, Inbox(transport)).fail(REQUEST, Fault("internal", "x" * 5000))
    (sent,) = transport.published
    assert len(sent.headers["Nats-Service-Error"]) == 512
    assert len(decode(sent.data, Failure).message) == 5000


@pytest.mark.parametrize("kind", ["progress", "log"])
async def test_an_event_names_its_kind(transport, kind):
    """In a header, so that a reply is not mistaken for one."""
    await Replies(transport, Inbox(transport)).event(REQUEST, ToolEvent(kind=kind))
    assert transport.published[0].headers == {"Event": kind}


async def test_an_unreachable_caller_is_no_error_of_the_worker(transport):
    """It is logged only."""
    transport.connected = False
    replies = Replies(transport, Inbox(transport))
    await replies.reply(REQUEST, b"body")
    await replies.fail(REQUEST, Fault("internal", "m"))
    await replies.event(REQUEST, ToolEvent(kind="log"))
    assert transport.published == []

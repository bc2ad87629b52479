"""What a worker sends back."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.inbox import Inbox
from searchbus_bus.parts import Assembly, ChunkMark
from searchbus_bus.replies import Replies
from searchbus_bus.transport import Message
from searchbus_contracts import ErrorCode, Failure, Fault, ToolEvent, decode
from searchbus_contracts.subjects import is_credit_subject
from searchbus_testing import until

REQUEST = Message("sb.v1.echo.say", b"{}", reply="inbox.1")


async def test_a_small_reply_is_one_message(transport):
    """Without headers."""
    await Replies(transport, Inbox(transport)).reply(REQUEST, b"body")
    (sent,) = transport.published
    assert (sent.subject, sent.data, sent.headers) == ("inbox.1", b"body", {})


async def test_a_receiver_that_gives_no_credit_gets_all_parts_at_once(transport):
    """One of an earlier release. It can put them together."""
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


async def test_a_failure_stands_in_headers_and_body(transport):
    """The header is one line of ASCII, for other libraries."""
    fault = Fault(ErrorCode.NOT_FOUND, "No document 'é'.\nTry another.")
    await Replies(transport, Inbox(transport)).fail(REQUEST, fault.failure)
    (sent,) = transport.published
    assert sent.headers["Nats-Service-Error-Code"] == "not_found"
    assert sent.headers["Nats-Service-Error"] == "No document '?'. Try another."
    assert decode(sent.data, Failure) == fault.failure


async def test_a_long_message_is_cut_in_the_header_only(transport):
    """The body has all of it."""
    await Replies(transport, Inbox(transport)).fail(REQUEST, Fault("internal", "x" * 5000).failure)
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
    await replies.fail(REQUEST, Failure(code="internal", message="m"))
    await replies.event(REQUEST, ToolEvent(kind="log"))
    assert transport.published == []

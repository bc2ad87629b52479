"""What a worker sends back."""

from __future__ import annotations

import pytest

from searchbus_bus.parts import Assembly, ChunkMark
from searchbus_bus.replies import Replies
from searchbus_bus.transport import Message
from searchbus_contracts import ErrorCode, Failure, Fault, ToolEvent, decode

REQUEST = Message("sb.v1.echo.say", b"{}", reply="inbox.1")


async def test_a_small_reply_is_one_message(transport):
    """Without headers."""
    await Replies(transport).reply(REQUEST, b"body")
    (sent,) = transport.published
    assert (sent.subject, sent.data, sent.headers) == ("inbox.1", b"body", {})


async def test_a_large_reply_is_sent_in_parts(transport):
    """The receiver can put them together."""
    transport.max_payload_bytes = 8 * 1024 + 3
    await Replies(transport).reply(REQUEST, b"abcdefgh")
    marks = [ChunkMark.parse(m.headers["Chunk"]) for m in transport.published]
    assembly = Assembly(marks[0].count, marks[0].size_bytes, marks[0].sha256)
    bodies = [
        assembly.add(k.index, m.data) for k, m in zip(marks, transport.published, strict=True)
    ]
    assert bodies == [None, None, b"abcdefgh"]


async def test_a_failure_stands_in_headers_and_body(transport):
    """The header is one line of ASCII, for other libraries."""
    fault = Fault(ErrorCode.NOT_FOUND, "No document 'é'.\nTry another.")
    await Replies(transport).fail(REQUEST, fault.failure)
    (sent,) = transport.published
    assert sent.headers["Nats-Service-Error-Code"] == "not_found"
    assert sent.headers["Nats-Service-Error"] == "No document '?'. Try another."
    assert decode(sent.data, Failure) == fault.failure


async def test_a_long_message_is_cut_in_the_header_only(transport):
    """The body has all of it."""
    await Replies(transport).fail(REQUEST, Fault("internal", "x" * 5000).failure)
    (sent,) = transport.published
    assert len(sent.headers["Nats-Service-Error"]) == 512
    assert len(decode(sent.data, Failure).message) == 5000


@pytest.mark.parametrize("kind", ["progress", "log"])
async def test_an_event_names_its_kind(transport, kind):
    """In a header, so that a reply is not mistaken for one."""
    await Replies(transport).event(REQUEST, ToolEvent(kind=kind))
    assert transport.published[0].headers == {"Event": kind}


async def test_an_unreachable_caller_is_no_error_of_the_worker(transport):
    """It is logged only."""
    transport.connected = False
    replies = Replies(transport)
    await replies.reply(REQUEST, b"body")
    await replies.fail(REQUEST, Failure(code="internal", message="m"))
    await replies.event(REQUEST, ToolEvent(kind="log"))
    assert transport.published == []

"""Replies whose structured content stays JSON."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from searchbus_contracts import Fault, TextContent, ToolReply, decode, encode
from searchbus_edge.tools.reply import RawReply, Reply

LARGE = {"text": "é鯨" * 50_000}


def received(structured: bytes) -> Reply:
    """The reply of a worker with this structured content."""
    return Reply.of(decode(b'{"structured":%b}' % structured, RawReply))


@pytest.mark.parametrize("value", [{}, {"a": [1, None, "é\n"]}, LARGE])
def test_structured_content_is_the_workers_bytes(value):
    """And decoded for those who ask."""
    reply = received(encode(value))
    assert reply.structured == encode(value)
    assert reply.value == value
    assert reply.decoded() == ToolReply(structured=value)


@pytest.mark.parametrize("body", [b"{}", b'{"structured":null}', encode(ToolReply())])
def test_reply_without_structured_content(body):
    """Null is none."""
    reply = Reply.of(decode(body, RawReply))
    assert (reply.structured, reply.value) == (None, None)
    assert reply.decoded() == ToolReply()


@pytest.mark.parametrize(
    "structured",
    [
        b"[]", b'"text"', b"1", b"true", b"{", b'{"a":"\xff"}', b'{"\xed\xa0\x80":1}', b'{"a":01}',
        b'{"a":"\n"}', b'{"a":"' + b"x" * 65_530 + b'\xc3"}', b"[" * 5000 + b"]" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_refused(structured):
    """Nothing reaches a client that it could not read."""
    with pytest.raises(Fault):
        received(structured)


def test_letters_are_checked_across_pieces():
    """A letter of several bytes lies in two of them."""
    for before in range(4):
        value = {"a" * before: "é鯨😀" * 40_000}
        assert received(encode(value)).value == value


@pytest.mark.parametrize("space", [b" ", b"\n", b"\r\n", b"\t"])
def test_json_on_several_lines_becomes_one(space):
    """An event stream ends an event's line there."""
    reply = received(b'{%b"a":%b"x\\ny"}' % (space, space))
    assert reply.value == {"a": "x\ny"}
    assert reply.structured is not None
    assert not {b"\n", b"\r", b"\t"} & {bytes([byte]) for byte in reply.structured}


def test_reply_that_was_made_here():
    """The same fields."""
    made = ToolReply(
        content=(TextContent(text="t"),), structured={"a": 1}, is_error=True, meta={"x": 1}
    )
    assert Reply.of(made).decoded() == made
    assert Reply.of(made).structured == b'{"a":1}'


def test_shown_json_is_the_text():
    """For those who take the reply as a ToolReply."""
    reply = Reply(structured=b'{"a":"\xc3\xa9"}', text=b'{"a":"\xc3\xa9"}')
    assert reply.decoded().content == (TextContent(text='{"a":"é"}'),)


def test_read_fields_are_those_of_the_contract():
    """A field of ToolReply that is added must be read here, too."""
    fields = [f.encode_name for f in msgspec.structs.fields(ToolReply)]
    assert [f.encode_name for f in msgspec.structs.fields(RawReply)] == fields
    assert isinstance(RawReply(structured=Raw(b"{}")), RawReply)

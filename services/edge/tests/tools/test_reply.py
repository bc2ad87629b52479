"""Replies whose structured content stays JSON."""

from __future__ import annotations

import json

import mcp_types as types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods
from msgspec import Raw

from searchbus_contracts import (
    ErrorCode,
    Fault,
    ResourceBody,
    TextContent,
    ToolReply,
    decode,
    encode,
)
from searchbus_contracts.tools import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    InputRequired,
    ResourceLink,
)
from searchbus_edge.mcp.fast import encode_reply, is_plain
from searchbus_edge.tools.reply import (
    RawReply,
    Reply,
    tool_result,
)
from searchbus_edge.tools.reply import (
    shown as shown_by,
)

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


@pytest.mark.parametrize("space", [b"", b"\n"])
def test_number_out_of_range_is_not_the_callers(space):
    """It is JSON all the same, and passes where nobody decodes it."""
    with pytest.raises(Fault) as raised:
        assert received(b'{"a":%b1e999}' % space).value
    assert raised.value.code == ErrorCode.INTERNAL


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


@pytest.mark.parametrize(
    ("renderer", "text"),
    [("json", {"results": [{"a": "é"}]}), ("results", [{"a": "é"}]), ("content", None)],
)
def test_text_is_made_of_the_structured_value(make_tool, renderer, text):
    """As the renderer says; non-ASCII letters stay readable."""
    structured = {"results": [{"a": "é"}]}
    reply = Reply.of(ToolReply(structured=structured))
    result = shown_by(make_tool(renderer=renderer), reply)
    assert result.value == structured
    assert result.content == ()
    if text is None:
        assert result.text is None
    else:
        assert json.loads(result.text) == text
        assert "é" in result.text.decode()


def test_text_of_a_reply_without_results_is_null(make_tool):
    """The renderer "results" finds none."""
    reply = Reply.of(ToolReply(structured={"items": []}))
    assert shown_by(make_tool(renderer="results"), reply).text == b"null"


def test_content_of_the_worker_is_kept(make_tool):
    """With metadata and the mark of an error."""
    reply = ToolReply(
        content=(TextContent(text="own"),), structured={"a": 1}, is_error=True, meta={"x": 1}
    )
    shown = shown_by(make_tool(renderer="json"), Reply.of(reply))
    result = tool_result(shown.decoded())
    assert [block.text for block in result.content] == ["own"]
    assert result.is_error
    assert result.meta == {"x": 1}


SERVER = {"name": "searchbus", "version": "1"}
REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
PLAIN = [
    ToolReply(),
    ToolReply(content=(TextContent(text="é ✓ \u2028 <b>"),)),
    ToolReply(content=(ImageContent(data="AA==", mime_type="image/png"),)),
    ToolReply(content=(AudioContent(data="AA==", mime_type="audio/wav"),)),
    ToolReply(content=(EmbeddedResource(resource=ResourceBody(uri="a://b", text="")),)),
    ToolReply(content=(EmbeddedResource(resource=ResourceBody(uri="a b", blob="AA==",
                                                              mime_type="x/y")),)),
    ToolReply(content=(ResourceLink(uri="a://b", name="b"),)),
    ToolReply(content=(ResourceLink(uri="a", name="", description="d", mime_type="x/y"),)),
    ToolReply(structured={"a": None, "b": [1, 2.5, 1e300, 2**70, True], "c": {"d": None}}),
    ToolReply(content=(TextContent(text="no"),), structured={"error": {}}, is_error=True),
    ToolReply(meta={"example.org/x": {"y": None}, "example.org/none": None}),
]  # fmt: skip


def by_sdk(reply: ToolReply, revision: str) -> dict:
    """What the SDK's runner makes of the reply."""
    dumped = tool_result(reply).model_dump(by_alias=True, mode="json", exclude_none=True)
    result = methods.serialize_server_result("tools/call", revision, dumped)
    if revision >= "2026":
        stamp = {"io.modelcontextprotocol/serverInfo": SERVER}
        result["_meta"] = {**result.get("_meta", {}), **stamp}
    return {"jsonrpc": "2.0", "id": 5, "result": result}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("reply", PLAIN)
def test_result_is_the_sdks(reply, revision):
    """Compared as JSON values."""
    assert is_plain(Reply.of(reply))
    encoded = encode_reply(5, Reply.of(reply), SERVER if revision >= "2026" else None)
    assert json.loads(b"".join(encoded)) == by_sdk(reply, revision)


_LONGEST = 10**20 - 1  # longer integers do not cross the bus
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-_LONGEST, _LONGEST)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(
        st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)  # fmt: skip


@pytest.mark.slow
@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON),
    st.sampled_from(REVISIONS),
)
def test_any_structured_content_is_the_sdks(structured, revision):
    """Every JSON object, and its JSON as the text."""
    reply = Reply.of(ToolReply(structured=structured))
    shown = msgspec.structs.replace(reply, text=reply.structured)
    encoded = b"".join(encode_reply(5, shown, SERVER if revision >= "2026" else None))
    answer = json.loads(encoded)
    assert answer == by_sdk(shown.decoded(), revision)
    assert json.loads(answer["result"]["content"][0]["text"]) == structured


@pytest.mark.parametrize(
    "reply",
    [
        ToolReply(input_required=InputRequired(state="s")),
        ToolReply(content=(TextContent(text="t", annotations={"audience": ["user"]}),)),
        ToolReply(content=(EmbeddedResource(resource=ResourceBody(uri="a", text="t", blob="AA")),)),
        ToolReply(content=(EmbeddedResource(resource=ResourceBody(uri="a")),)),
        ToolReply(meta={"io.modelcontextprotocol/serverInfo": {}}),
        ToolReply(meta={"progressToken": 1}),
    ],
)
def test_other_replies_are_left_to_the_kernel(reply):
    """Their form is the SDK's business."""
    assert not is_plain(Reply.of(reply))


def test_revisions_are_those_of_the_sdk():
    """A new one must be compared here."""
    assert types.LATEST_PROTOCOL_VERSION in REVISIONS

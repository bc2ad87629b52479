"""The fast form of a result is the SDK's, for every kind of content."""

from __future__ import annotations

import json

import mcp_types as types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods

from searchbus_contracts import ResourceBody, TextContent, ToolReply
from searchbus_contracts.tools import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    InputRequired,
    ResourceLink,
)
from searchbus_edge.mcp.results import encode_reply, is_plain
from searchbus_edge.tools.render import tool_result
from searchbus_edge.tools.reply import Reply

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

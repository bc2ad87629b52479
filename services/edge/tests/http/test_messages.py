"""The JSON-RPC envelope: one sentence per fault, the id wherever it is valid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from searchbus_edge.http.messages import Envelope, MessageFault, read_envelope


def body(**fields) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@pytest.mark.parametrize(
    ("message", "envelope"),
    [
        (body(id=1, method="tools/list"), Envelope(1, "")),
        (body(id="a", method="ping", params=None), Envelope("a", "")),
        (body(id=-5, method="tools/call", params={"name": "t"}), Envelope(-5, "t")),
        (body(id=1, method="tools/call", params={"name": 5}), Envelope(1, "")),
        (body(id=1, method="tools/call", params={}), Envelope(1, "")),
        (body(id=1, method="prompts/get", params={"name": "t"}), Envelope(1, "")),
        (body(method="notifications/initialized"), Envelope(None, "")),
        (body(id=1, result={}), Envelope(None, "")),
        (
            b' {"jsonrpc":"2.0","id":1,"method":"tools/call","params": {"name":"t"}}',
            Envelope(1, "t"),
        ),
    ],
)
def test_good_messages_pass(message, envelope):
    """Requests, notifications, responses; the tool's name of a call."""
    assert read_envelope(message) == envelope


@pytest.mark.parametrize(
    ("message", "code", "text", "message_id"),
    [
        (b"", -32700, "not valid JSON", None),
        (b"{", -32700, "not valid JSON", None),
        (b"\xff", -32700, "not valid JSON", None),
        (b'{"jsonrpc":"2.0","method":"\xff"}', -32700, "not valid JSON", None),
        (b'{"a":' * 100_000, -32700, "not valid JSON", None),
        (b"5", -32600, "Send one JSON object", None),
        (b"null", -32600, "Send one JSON object", None),
        (b"{}", -32600, "jsonrpc must be", None),
        (body(id=1.5, method="a"), -32600, "id must be", None),
        (body(id=1.0, method="a"), -32600, "id must be", None),
        (body(id=None, method="a"), -32600, "id must be", None),
        (body(id=True, method="a"), -32600, "id must be", None),
        (body(id=[1], method="a"), -32600, "id must be", None),
        (body(id=7, method="a", jsonrpc="1.0"), -32600, "jsonrpc must be", 7),
        (body(id=7, method=None), -32600, "method must be", 7),
        (body(id=7, method="a", params=[]), -32602, "params must be", 7),
        (body(id=7, method="a", params="x"), -32602, "params must be", 7),
        (body(id=7, method="a", params=0), -32602, "params must be", 7),
        (body(method="a", params=[]), -32602, "params must be", None),
    ],
)
def test_bad_messages_name_the_field(message, code, text, message_id):
    """What it must be, and no dump."""
    with pytest.raises(MessageFault, match=text) as caught:
        read_envelope(message)
    assert (caught.value.code, caught.value.message_id) == (code, message_id)
    assert len(str(caught.value)) < 100


GOOD = body(id=1, method="tools/call", params={"name": "é", "arguments": {"a": [1.5, None]}})


@given(st.integers(0, len(GOOD)), st.integers(0, 3), st.binary(max_size=6))
def test_changed_bytes_are_a_fault_or_a_message(at, cut, added):
    """Never another exception: it would become a 500."""
    try:
        envelope = read_envelope(GOOD[:at] + added + GOOD[at + cut :])
    except MessageFault:
        return
    assert isinstance(envelope.tool, str)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_of_a_field_is_a_fault_or_a_message(value):
    """Ids, methods and params of every type."""
    for field in ("id", "method", "params", "jsonrpc"):
        message = {"jsonrpc": "2.0", "id": 1, "method": "a", field: value}
        try:
            read_envelope(json.dumps(message).encode())
        except MessageFault:
            pass

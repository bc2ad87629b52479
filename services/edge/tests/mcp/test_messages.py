"""JSON-RPC messages: one sentence per fault, the id wherever it is valid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_edge.mcp.messages import (
    Invalid,
    Notification,
    RpcRequest,
    encode_error,
    encode_result,
    read_other,
    read_request,
)


def parse_body(text, *, modern):
    return read_request(text) or read_other(text, modern=modern)


def body(**fields) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


@pytest.mark.parametrize(
    ("message", "message_id", "tool", "params"),
    [
        (body(id=1, method="tools/list"), 1, "", None),
        (body(id="a", method="ping", params=None), "a", "", None),
        (body(id=-5, method="tools/call", params={"name": "t"}), -5, "t", {"name": "t"}),
        (body(id=1, method="tools/call", params={"name": 5}), 1, "", {"name": 5}),
        (body(id=1, method="tools/call", params={}), 1, "", {}),
        (body(id=1, method="prompts/get", params={"name": "t"}), 1, "", {"name": "t"}),
        (b' {"jsonrpc":"2.0","id":1,"method":"tools/call","params": {"name":"t"}}', 1, "t",
         {"name": "t"}),
    ],
)  # fmt: skip
def test_requests_are_parsed(message, message_id, tool, params):
    """Parameters stay raw until they are wanted."""
    request = parse_body(message, modern=True)
    assert isinstance(request, RpcRequest)
    assert (request.id, request.called_tool()) == (message_id, tool)
    assert request.decoded_params() == params


def test_notifications_and_responses_are_accepted():
    """Clients of 2026-07-28 send no responses."""
    message = body(method="notifications/cancelled", params={"requestId": 1})
    assert parse_body(message, modern=False) == Notification(
        "notifications/cancelled", {"requestId": 1}
    )
    assert parse_body(body(id=1, result={}), modern=False) == Notification()
    assert isinstance(parse_body(body(id=1, result={}), modern=True), Invalid)


def test_batch_is_a_list():
    """Of decoded values."""
    assert parse_body(b' [{"a":1}, 2]', modern=False) == [{"a": 1}, 2]


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize(
    ("message", "code", "text", "message_id"),
    [
        (b"", -32700, "JSON is truncated", None),
        (b"{", -32700, "JSON is truncated", None),
        (b'{"id":1,"params":{"n":NaN}}', -32700, "invalid character (byte 22)", None),
        (b"\xff", -32700, "invalid character (byte 0)", None),
        (b'{"jsonrpc":"2.0","method":"\xff"}', -32700, "not valid UTF-8", None),
        (b'{"a":' * 100_000, -32700, "nested too deeply", None),
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
        (body(method="a", params=[]), -32602, "params must be", None),
    ],
)
def test_bad_messages_name_the_field(message, code, text, message_id, modern):
    """What it must be, and no dump."""
    found = parse_body(message, modern=modern)
    assert isinstance(found, Invalid)
    assert (found.code, found.id) == (code, message_id)
    assert text in found.message
    assert len(found.message) < 100


GOOD = body(id=1, method="tools/call", params={"name": "é", "arguments": {"a": [1.5, None]}})


@given(st.integers(0, len(GOOD)), st.integers(0, 3), st.binary(max_size=6))
def test_changed_bytes_are_a_fault_or_a_message(at, cut, added):
    """Never an exception: it would become a 500."""
    found = parse_body(GOOD[:at] + added + GOOD[at + cut :], modern=False)
    assert isinstance(found, RpcRequest | Notification | Invalid | list)
    if isinstance(found, RpcRequest):
        assert isinstance(found.called_tool(), str)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_of_a_field_is_a_fault_or_a_message(value):
    """Ids, methods and params of every type."""
    for field in ("id", "method", "params", "jsonrpc"):
        message = {"jsonrpc": "2.0", "id": 1, "method": "a", field: value}
        parse_body(json.dumps(message).encode(), modern=True)


def test_responses_are_encoded():
    """An error without data has no such member; an unknown id is null."""
    assert json.loads(encode_result("a", {"b": 1})) == {
        "jsonrpc": "2.0", "id": "a", "result": {"b": 1}
    }  # fmt: skip
    assert json.loads(encode_error(None, -32700, "no")) == {
        "jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}
    }  # fmt: skip
    assert json.loads(encode_error(1, -1, "no", {"x": 1}))["error"]["data"] == {"x": 1}

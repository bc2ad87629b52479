"""Messages of servers as bytes."""

from __future__ import annotations

import json

import pytest
from mcp_types import jsonrpc_message_adapter

from searchbus_attach.transports.budget import MAX_EVENT_BYTES, Budget
from searchbus_attach.transports.messages import MAX_VALUES, count_values, read_message

MANY = b"[" + b",".join([b"[]"] * (MAX_VALUES + 1)) + b"]"
DEEP = b'{"a":' * 300 + b"1" + b"}" * 300


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "ping"},
        {"id": "one", "method": "roots/list", "params": {"_meta": {"a": [1, None, 1.5]}}},
        {"method": "notifications/progress", "params": {"progress": 1, "progressToken": 2}},
        {"method": "notifications/initialized", "params": None},
        {"id": 1, "result": {}},
        {"id": 1, "result": {"content": [{"type": "text", "text": 'a\\"b\u202e'}]}},
        {"id": 1, "error": {"code": -32601, "message": "no", "data": {"a": 1}}},
        {"id": None, "error": {"code": -32700, "message": "no"}},
        {"id": 1, "error": None, "result": {"a": 1}},
    ],
)
def test_a_message_is_read_as_the_sdk_reads_it(message):
    """Of each kind."""
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    expected = jsonrpc_message_adapter.validate_json(data, by_name=False)
    found = read_message(data, Budget("x"))
    assert type(found) is type(expected)
    assert found.model_dump() == expected.model_dump()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"Welcome", b"[]", b"\xff", b'{"id":1,"result":{}}', b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}', b'{"jsonrpc":"2.0","method":1}',
        b'{"jsonrpc":"2.0","method":"x","params":[]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_a_message_is_an_error(data):
    """For who wants to count it."""
    with pytest.raises(ValueError, match=r"."):
        read_message(data, Budget("x"))


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (b"null", "validation error"),
        (b"[]", "validation error"),
        (b'{"a":1e999}', "validation error"),
        (b'{"a":%b}' % MANY, "more than 200,000 values"),
        (DEEP, "nested"),
    ],
    ids=["null", "list", "number", "values", "deep"],
)
def test_an_answer_that_cannot_be_read_is_an_error_for_its_caller(result, problem):
    """Who does not wait for the deadline, and a server's other calls go on."""
    found = read_message(b'{"jsonrpc":"2.0","id":7,"result":%b}' % result, Budget("x"))
    assert found.id == 7
    assert problem in found.error.message


def test_what_comes_for_a_request_is_its_answer():
    """Whatever id it has, or if it is not a message."""
    data = b'{"jsonrpc":"2.0","id":7,"result":{"a":1}}'
    assert read_message(data, Budget("x"), answers="one").id == "one"
    assert read_message(b"Welcome", Budget("x"), answers="one").id == "one"
    notice = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
    assert read_message(notice, Budget("x"), answers="one").method == "notifications/message"


@pytest.mark.parametrize("number", [b"", b'"id":1,'])
def test_a_large_message_that_is_not_an_answer_is_dropped(number):
    """A request of the server, too: none has a use for that much."""
    budget = Budget("x")
    text = b"x" * MAX_EVENT_BYTES
    data = b'{"jsonrpc":"2.0",%b"method":"notifications/message","params":{"data":"%b"}}'
    assert read_message(data % (number, text), budget) is None
    assert budget.dropped == 1


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ([1] * 1000, 1000, 1001),
        ([{"a": 1, "b": [2]}] * 1000, 4000, 5001),
        ("a, [b] {c} " * MAX_VALUES, 0, 10),
        (['\\", [' * 10] * 50_000, 50_000, 100_001),
        ([""] * 300_000, 300_000, 300_001),
    ],
    ids=["numbers", "objects", "a long text", "escaped quotes", "empty texts"],
)
def test_values_are_counted_without_parsing(value, least, most):
    """Marks in texts are not taken for values, where that matters."""
    assert least <= count_values(json.dumps(value).encode()) <= most

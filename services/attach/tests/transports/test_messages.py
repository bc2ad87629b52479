"""Messages of servers as bytes."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from searchbus_attach.transports import messages
from searchbus_attach.transports.budget import MAX_EVENT_BYTES, Budget
from searchbus_attach.transports.messages import (
    MAX_VALUES,
    CallerTasks,
    MessageStream,
    count_values,
    is_reply_too_many,
    read_message,
)

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
        (b'{"a":%b}' % (b"1" * 21), "more than 20 digits"),
    ],
    ids=["null", "list", "number", "values", "deep", "integer"],
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


def test_the_first_part_of_a_message_with_too_many_values_shows_that(monkeypatch):
    """The rest of it is not looked through for texts: that takes longer than parsing it."""
    looked_at: list[int] = []

    def marks(data: bytes) -> int:
        looked_at.append(len(data))
        return len(data) - len(data.translate(None, b",[{"))

    monkeypatch.setattr(messages, "_marks", marks)
    many = MANY * 8
    assert count_values(many) > MAX_VALUES
    whole, *parts = looked_at
    assert whole == len(many)
    assert max(parts) <= len(many) // 4


@pytest.mark.parametrize("first_bytes", range(1, 40))
def test_a_first_part_may_end_anywhere(monkeypatch, first_bytes):
    """In a text, or between the two characters of an escape."""
    monkeypatch.setattr(messages, "MAX_VALUES", 6)
    monkeypatch.setattr(messages, "_FIRST_BYTES", first_bytes)
    texts = ["a\\", '\\\\"', '[,[,["[,[,[', [1]]
    assert count_values(json.dumps(texts).encode()) <= 6
    assert count_values(json.dumps([*texts, [], [], []]).encode()) > 6


caller: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture
def stream() -> MessageStream[int]:
    return MessageStream(shows_context=True)


async def test_messages_come_in_order(stream):
    """A sender does not wait for the receiver; a receiver waits for the sender."""
    for number in range(3):
        await stream.send(number)
    stream.close()
    assert [number async for number in stream] == [0, 1, 2]


async def test_receiver_waits(stream):
    """Also when it was cancelled before."""
    for _ in range(2):
        waiting = asyncio.create_task(stream.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    waiting = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    await stream.send(1)
    assert await waiting == 1


async def test_replies_do_not_wait_where_many_messages_wait():
    """A server that asks without end and does not read gets no task for each of its requests."""
    stream = MessageStream[SessionMessage](shows_context=False, refused=is_reply_too_many)
    reply = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    for _ in range(100):
        await stream.send(reply)
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(reply)
    request = SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))
    asking = asyncio.create_task(stream.send(request))
    await asyncio.sleep(0)
    assert not asking.done()
    await stream.receive()
    await asking


@pytest.mark.parametrize(
    "reply",
    [
        JSONRPCResponse(jsonrpc="2.0", id="x" * 100_000, result={}),
        JSONRPCError(
            jsonrpc="2.0",
            id=1,
            error=ErrorData(code=-32601, message="no such method", data="x" * 100_000),
        ),
    ],
)
async def test_large_replies_are_not_taken(reply):
    """They repeat what the server sent."""
    stream = MessageStream[SessionMessage](shows_context=False, refused=is_reply_too_many)
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(SessionMessage(reply))


async def test_sender_waits_where_many_messages_wait(stream):
    """A server that floods us waits, and our memory does not grow."""
    sent = 0

    async def flood() -> None:
        nonlocal sent
        for number in range(1000):
            await stream.send(number)
            sent += 1

    sending = asyncio.create_task(flood())
    for received in range(1000):
        for _ in range(5):
            await asyncio.sleep(0)
        assert sent - received <= 100
        assert await stream.receive() == received
    await sending


async def test_close_ends_the_wait_of_a_sender(stream):
    """With the error of a closed stream."""

    async def flood() -> None:
        while True:
            await stream.send(0)

    sending = asyncio.create_task(flood())
    await asyncio.sleep(0)
    stream.close()
    with pytest.raises(anyio.BrokenResourceError):
        await sending


async def test_closed_stream_takes_nothing_and_gives_the_rest(stream):
    """With the errors that the SDK expects."""
    await stream.send(1)
    async with stream:
        pass
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(2)
    assert await stream.receive() == 1
    with pytest.raises(anyio.EndOfStream):
        await stream.receive()


async def test_close_wakes_the_receiver(stream):
    """Which would wait for ever."""
    waiting = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    await stream.aclose()
    with pytest.raises(anyio.EndOfStream):
        await waiting


@pytest.mark.parametrize("shows_context", [True, False])
async def test_context_of_the_sender(shows_context):
    """It is that of the message received last; the SDK sees it where it is shown."""
    stream = MessageStream[int](shows_context=shows_context)

    async def send(name: str, number: int) -> None:
        caller.set(name)
        await stream.send(number)

    for number, name in enumerate(("a", "b")):
        await asyncio.create_task(send(name, number))
    found = []
    for _ in range(2):
        await stream.receive()
        found.append(stream.sender[caller])
        assert (stream.last_context is stream.sender) is shows_context
    assert found == ["a", "b"]


async def test_tasks_run_in_the_context_of_the_sender():
    """So that what a request logs belongs to its caller."""
    stream = MessageStream[None](shows_context=False)
    found = []

    async def send(name: str) -> None:
        caller.set(name)
        await stream.send(None)

    async def request(number: int) -> None:
        await asyncio.sleep(0)
        found.append((number, caller.get()))

    await asyncio.create_task(send("a"))
    await asyncio.create_task(send("b"))
    async with anyio.create_task_group() as group:
        tasks = CallerTasks(group, stream)
        for number in range(2):
            await stream.receive()
            tasks.start_soon(request, number)
    assert found == [(0, "a"), (1, "b")]
    assert caller.get() == "nobody"

"""Batches: each message is served like a request of its own; one stream or one array answers."""

from __future__ import annotations

import asyncio
import json

import pytest

from searchbus_contracts import Actor
from searchbus_edge.http.answer import HttpAnswer
from searchbus_edge.http.faults import HttpRefusedError
from searchbus_edge.http.head import Received, parse_head
from searchbus_edge.mcp.endpoint import MAX_BATCH, answer_batch, check_batch
from searchbus_edge.mcp.messages import Invalid, Notification, encode_error, encode_result


def message(number, method: str = "ping", **fields):
    return {"jsonrpc": "2.0", "id": number, "method": method, **fields}


NOTE = {"jsonrpc": "2.0", "method": "notifications/x"}


@pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-03-26"])
def test_batches_of_early_revisions_are_accepted(revision):
    """Up to the limit."""
    check_batch([message(n) for n in range(MAX_BATCH)], revision)


@pytest.mark.parametrize(
    ("messages", "revision", "text"),
    [
        ([message(1)], "2025-06-18", "has no batches"),
        ([message(1)], "2026-07-28", "has no batches"),
        ([], None, "empty"),
        ([1, 2], None, "has no message"),
        ([message(n) for n in range(MAX_BATCH + 1)], None, "50 are allowed"),
    ],
)
def test_bad_batches_are_refused_as_a_whole(messages, revision, text):
    """With one error."""
    with pytest.raises(HttpRefusedError, match=text) as raised:
        check_batch(messages, revision)
    assert (raised.value.status, raised.value.code) == (400, -32600)


class Server:
    """Serves messages; `hang` never ends."""

    def __init__(self) -> None:
        self.received = []
        self.answers = []
        self.cancelled = 0

    async def message(self, received, message, answer) -> None:
        self.received.append(received)
        self.answers.append(answer)
        if isinstance(message, Invalid):
            await answer.finish(encode_error(message.id, message.code, message.message), status=400)
        elif isinstance(message, Notification):
            await answer.finish(b"", status=202)
        elif message.method == "hang":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        else:
            await answer.notify(b'{"method":"notifications/progress"}')
            await answer.finish(encode_result(message.id, {"of": message.method}))


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def run(server):
    """Sends a batch; returns (status, content type, body)."""

    async def send_batch(*messages, accept="application/json"):
        events = []

        async def send(event):
            events.append(event)

        received = Received(parse_head([(b"accept", accept.encode())]), Actor(subject="a"))
        stream = HttpAnswer(received.head, send)
        await answer_batch(list(messages), received, server.message, send, stream)
        assert not events[-1].get("more_body")
        body = b"".join(e.get("body", b"") for e in events)
        return events[0]["status"], dict(events[0]["headers"])[b"content-type"], body

    return send_batch


async def test_array_holds_one_response_per_request(run, server):
    """In the order of the messages; notifications get none."""
    status, kind, body = await run(message(1), NOTE, message(2, "other"))
    assert (status, kind) == (200, b"application/json")
    assert [(r["id"], r["result"]["of"]) for r in json.loads(body)] == [(1, "ping"), (2, "other")]
    assert len(server.received) == 3


async def test_stream_holds_events_and_responses(run):
    """For a client that accepts one."""
    _, kind, body = await run(message(1), message(2), accept="text/event-stream")
    assert kind == b"text/event-stream"
    assert body.count(b"notifications/progress") == 2
    assert body.count(b'"result"') == 2


async def test_no_response_is_kept_once_it_is_in_the_stream(run, server):
    """Fifty large ones would be in memory until the last message ends."""
    await run(message(1), message(2), accept="text/event-stream")
    assert [answer.response for answer in server.answers] == [b"", b""]


async def test_notifications_alone_are_accepted(run):
    """202 without a body."""
    status, _, body = await run(NOTE, NOTE, accept="text/event-stream")
    assert (status, body) == (202, b"")


async def test_responses_alone_are_accepted(run, server):
    """A client that answers requests of ours: 202 without a body (2025-03-26, transports)."""
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    error = {"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "no"}}
    status, _, body = await run(response, error, NOTE, accept="text/event-stream")
    assert (status, body) == (202, b"")


@pytest.mark.parametrize(
    ("bad", "code", "message_id"),
    [
        (5, -32600, None),
        (message(1.5), -32600, None),
        (message(None), -32600, None),
        (message(7, params=[]), -32602, 7),
        (message(7, "initialize"), -32600, 7),
    ],
)
async def test_bad_message_harms_no_other(run, bad, code, message_id):
    """It has an error of its own."""
    _, _, body = await run(bad, message(2))
    first, second = json.loads(body)
    assert (first["error"]["code"], first["id"]) == (code, message_id)
    assert second["id"] == 2


async def test_batch_of_bad_messages_alone_is_a_bad_request(run):
    """Status 400, one error each."""
    status, _, body = await run(5, message(1, params=[]), accept="text/event-stream")
    assert status == 400
    assert [r["error"]["code"] for r in json.loads(body)] == [-32600, -32602]


async def test_cancelled_batch_cancels_every_message(run, server):
    """As when the client disconnects."""
    task = asyncio.create_task(run(message(1, "hang"), message(2, "hang")))
    while len(server.received) < 2:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert server.cancelled == 2

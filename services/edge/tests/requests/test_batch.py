"""Batches: each message is a request of its own; the responses are one stream or one array."""

from __future__ import annotations

import asyncio
import json

import pytest
from searchbus_edge.http.batch import MAX_BATCH, Batch, BodyRefused, parse_batch


def message(number: int, method: str = "ping", **fields):
    return {"jsonrpc": "2.0", "id": number, "method": method, **fields}


def encoded(*messages) -> bytes:
    return json.dumps(messages).encode()


@pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-03-26"])
def test_batches_of_early_revisions_are_parsed(revision):
    """The order is kept."""
    assert parse_batch(encoded(message(1), message(2)), revision) == [message(1), message(2)]


@pytest.mark.parametrize(
    ("body", "revision", "code", "text"),
    [
        (encoded(message(1)), "2025-06-18", -32600, "has no batches"),
        (b"[", None, -32700, "not valid JSON"),
        (b"[" * 100_000, None, -32700, "not valid JSON"),
        (b"[]", None, -32600, "empty"),
        (b"[1, 2]", None, -32600, "has no message"),
        (encoded(*[message(n) for n in range(MAX_BATCH + 1)]), None, -32600, "50 are allowed"),
    ],
)
def test_bad_batches_are_refused_as_a_whole(body, revision, code, text):
    """With status 400."""
    with pytest.raises(BodyRefused, match=text) as caught:
        parse_batch(body, revision)
    assert (caught.value.code, caught.value.status) == (code, 400)


class Transport:
    """Answers as the SDK does; `hang` waits until the client is gone, `deny` is refused."""

    def __init__(self) -> None:
        self.gone = 0
        self.bodies = []

    async def __call__(self, scope, receive, send) -> None:
        request = json.loads((await receive())["body"])
        self.bodies.append(request)
        headers = dict(scope["headers"])
        assert headers[b"accept"] == b"application/json, text/event-stream"
        method, status, kind = request["method"], 200, b"text/event-stream"
        result = {"jsonrpc": "2.0", "id": request.get("id"), "result": {"of": method}}
        body = (
            b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\r\n\r\n'
            + b"event: message\r\ndata: " + json.dumps(result).encode() + b"\r\n\r\n"
        )  # fmt: skip
        if method == "hang":
            assert (await receive())["type"] == "http.disconnect"
            self.gone += 1
            return
        if method == "deny":
            status, kind, body = 403, b"text/plain", b"no"
        if "id" not in request:
            status, kind, body = 202, b"application/json", b""
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
        )
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def run():
    """Sends a batch; returns (status, content type, body, transport)."""

    async def send_batch(*messages, accept=b"application/json"):
        transport, events, connected = Transport(), [], asyncio.Event()

        async def receive():
            await connected.wait()
            return {"type": "http.disconnect"}

        async def send(event):
            events.append(event)

        scope = {"type": "http", "headers": [(b"accept", accept)]}
        await Batch(transport, list(messages)).answer(scope, receive, send)
        body = b"".join(e.get("body", b"") for e in events)
        return events[0]["status"], dict(events[0]["headers"])[b"content-type"], body, transport

    return send_batch


async def test_array_holds_one_response_per_request(run):
    """In the order of the messages; notifications get none."""
    status, kind, body, transport = await run(
        message(1), {"jsonrpc": "2.0", "method": "notifications/x"}, message(2, "other")
    )
    assert (status, kind) == (200, b"application/json")
    assert [(r["id"], r["result"]["of"]) for r in json.loads(body)] == [(1, "ping"), (2, "other")]
    assert len(transport.bodies) == 3


async def test_stream_holds_events_and_responses(run):
    """For a client that accepts one."""
    _, kind, body, _ = await run(message(1), message(2), accept=b"text/event-stream")
    assert kind == b"text/event-stream"
    assert body.count(b"notifications/progress") == 2
    assert body.count(b'"result"') == 2


async def test_notifications_alone_are_accepted(run):
    """202 without a body."""
    status, _, body, _ = await run({"jsonrpc": "2.0", "method": "notifications/x"})
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
    _, _, body, transport = await run(bad, message(2))
    first, second = json.loads(body)
    assert (first["error"]["code"], first["id"]) == (code, message_id)
    assert second["id"] == 2
    assert len(transport.bodies) == 1


async def test_batch_of_bad_messages_alone_is_a_bad_request(run):
    """Status 400, one error each."""
    status, _, body, _ = await run(5, message(1, params=[]))
    assert status == 400
    assert [r["error"]["code"] for r in json.loads(body)] == [-32600, -32602]


async def test_refused_request_is_refused_as_a_whole(run):
    """401, 403 and 421 concern the connection."""
    status, _, body, _ = await run(message(1, "deny"), message(2))
    assert (status, body) == (403, b"no")


async def test_client_that_disconnects_ends_every_message():
    """The transport sees the disconnect."""
    transport = Transport()

    async def receive():
        return {"type": "http.disconnect"}

    async def send(event):
        pass

    batch = Batch(transport, [message(1, "hang"), message(2, "hang")])
    await batch.answer({"type": "http", "headers": []}, receive, send)
    assert transport.gone == 2

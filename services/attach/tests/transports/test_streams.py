"""What comes from a URL: limits of bodies, events that are paced, streams that are read on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.transports import budget
from searchbus_attach.transports import notes as limits
from searchbus_attach.transports import remote as module
from searchbus_attach.transports.direct import DirectRequests
from searchbus_attach.transports.http import transport
from searchbus_attach.transports.notes import HttpNotes

from .http.scripted import scripted


@pytest.mark.parametrize(
    ("status", "method", "accept"),
    [
        (307, "POST", "application/json, text/event-stream"),
        (401, "POST", "application/json, text/event-stream"),
        (200, "DELETE", "application/json, text/event-stream"),
        (200, "POST", "*/*"),
    ],
)
async def test_a_body_that_is_read_as_a_whole_is_limited(monkeypatch, status, method, accept):
    """Also where it calls itself a stream of events."""
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1000)
    response = stream_of_events(status, method, accept)
    await HttpNotes().look_at(response)
    with pytest.raises(httpx2.StreamError, match="larger than"):
        await response.aread()


async def test_a_body_that_says_that_it_is_too_large_is_not_read(monkeypatch):
    """Sixteen megabytes of it would be in memory first."""
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1000)
    read = []

    async def parts() -> AsyncIterator[bytes]:
        read.append(1)
        yield b" "

    request = httpx2.Request("POST", "http://x.example/mcp")
    response = httpx2.Response(
        200, headers={"Content-Length": "1001"}, content=parts(), request=request
    )
    await HttpNotes().look_at(response)
    with pytest.raises(httpx2.StreamError, match="larger than"):
        await response.aread()
    assert not read


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_stream_of_events_is_not_limited(monkeypatch, method):
    """Each of its events is."""
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1000)
    response = stream_of_events(200, method, "text/event-stream")
    await HttpNotes().look_at(response)
    assert len(await response.aread()) == 4000


async def test_a_part_with_nothing_but_lines_is_read_in_pieces(monkeypatch):
    """The SDK looks at each line; it is paid for, and other servers have their turn."""
    paid = []

    async def pace(size_bytes: int, messages: float) -> None:
        paid.append((size_bytes, messages))

    response = stream_of_events(200, "GET", "text/event-stream", b"\n" * 20_000)
    notes = HttpNotes()
    monkeypatch.setattr(notes.budget, "pace", pace)
    await notes.look_at(response)
    assert len(await response.aread()) == 80_000
    assert max(size_bytes for size_bytes, _ in paid) <= 4096
    assert sum(messages for _, messages in paid) == pytest.approx(10_000)


async def test_chunks_of_a_body_are_paid_for(monkeypatch):
    """A million of one byte each cost as much work as many megabytes."""
    paid = []

    async def pace(size_bytes: int, messages: float) -> None:
        paid.append((size_bytes, messages))

    notes = HttpNotes()
    monkeypatch.setattr(notes.budget, "pace", pace)
    async with (
        scripted() as server,
        httpx2.AsyncClient(
            transport=transport.Http1Transport(max_connections=1),
            event_hooks={"response": [notes.look_at]},
        ) as http,
    ):
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        server.answers = [head + b"1\r\n:\r\n" * 300_000 + b"0\r\n\r\n"]
        for _ in range(2):  # the second on the same connection
            paid.clear()
            assert len((await http.get(server.url)).content) == 300_000
            assert sum(size_bytes for size_bytes, _ in paid) == 300_000
            assert sum(messages for _, messages in paid) == pytest.approx(300_000 / 8)
    assert server.opened == 1


def stream_of_events(
    status: int, method: str, accept: str, part: bytes = b":" * 1000
) -> httpx2.Response:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield part

    request = httpx2.Request(method, "http://x.example/mcp", headers={"Accept": accept})
    kind = {"Content-Type": "text/event-stream"}
    return httpx2.Response(status, headers=kind, content=parts(), request=request)


async def test_an_endless_answer_does_not_hold_the_end_of_a_session(monkeypatch):
    """Each part of it comes in time."""
    monkeypatch.setattr(module, "_END_TIMEOUT_S", 0.2)
    result = b'{"jsonrpc":"2.0","id":1,"result":{}}'

    async def drips(_, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with scripted() as server, asyncio.timeout(60):
        server.answers = [
            b"HTTP/1.1 200 OK\r\nMcp-Session-Id: 1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(result), result),
            drips,
        ]
        far = parse_server("far", {"url": server.url})
        async with module.remote_transport(far, HttpNotes(), DirectRequests()) as (read, write):
            first = JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params={})
            await write.send(SessionMessage(first))
            await read.receive()
        assert server.requests[-1].startswith(b"DELETE ")


async def test_a_stream_that_breaks_off_again_and_again_is_read_on():
    """From its last event, with the headers of the session. The SDK gives it up the second time."""
    begins = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    event = b'id: %d\nretry: 0\ndata: {"jsonrpc":"2.0","method":"notifications/far"}\n\n'
    result = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    asked: list[bytes] = []

    async def answers(reader, writer):
        request = server.requests[-1].lower()
        if request.startswith(b"get "):
            asked.append(request)
            part = event % len(asked)
            writer.write(b"%b%x\r\n%b\r\n" % (begins, len(part), part))
            await writer.drain()
            writer.close()
            return
        length = re.search(rb"content-length: (\d+)", request)
        if length and b'"id"' in await reader.readexactly(int(length[1])):
            head = b"HTTP/1.1 200 OK\r\nMcp-Session-Id: 1\r\nContent-Type: application/json\r\n"
            writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(result), result))
        else:
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    async with scripted() as server, asyncio.timeout(60):
        server.answers = [answers]
        far = parse_server("far", {"url": server.url})
        async with module.remote_transport(far, HttpNotes(), DirectRequests()) as (read, write):
            first = JSONRPCRequest(jsonrpc="2.0", id=1, method="initialize", params={})
            await write.send(SessionMessage(first))
            await read.receive()
            last = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
            await write.send(SessionMessage(last))
            for _ in range(5):
                assert (await read.receive()).message.method == "notifications/far"
    assert all(b"mcp-session-id: 1\r\n" in request for request in asked)
    assert all(b"last-event-id: %d\r\n" % n in request for n, request in enumerate(asked) if n)


async def test_requests_for_streams_are_spaced_out(monkeypatch):
    """A server may end each at once, and have it asked for again at once, in each of its sessions;
    messages do not wait."""
    slept, now = [], SimpleNamespace(s=100.0)

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))

    monkeypatch.setattr(budget, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: now.s))
    shared, hooks = budget.Budget("far"), []

    def client(event_hooks: dict[str, list[Any]], **_: Any) -> httpx2.AsyncClient:
        hooks.append(event_hooks["request"])
        return httpx2.AsyncClient()

    monkeypatch.setattr(module, "BearerClient", client)
    far = parse_server("far", {"url": "http://x.example/mcp"})

    async def ask(session: int, method: str) -> None:
        for hook in hooks[session]:
            await hook(httpx2.Request(method, far.url, extensions={"timeout": {}}))

    async with (
        module.remote_transport(far, HttpNotes(shared), DirectRequests()),
        module.remote_transport(far, HttpNotes(shared), DirectRequests()),
    ):
        for session, method in ((0, "GET"), (1, "GET"), (1, "POST"), (0, "GET")):
            await ask(session, method)
        now.s += 1
        await ask(1, "GET")
    pause_s = budget.STREAM_PAUSE_S
    assert slept == [0.0, pause_s, 2 * pause_s, 0.0]


async def test_a_server_that_hangs_does_not_hold_the_end_of_its_session():
    """The request that says so has a short time; others have that of their calls."""
    times = {}
    for method in ("DELETE", "POST"):
        request = httpx2.Request(method, "http://x.example/mcp", extensions={"timeout": {}})
        await module._limit_end(request)
        times[method] = request.extensions["timeout"].get("read")
    assert times == {"DELETE": module._END_TIMEOUT_S, "POST": None}


async def test_a_compressed_body_is_refused():
    """It could be much larger than what is counted."""
    response = httpx2.Response(200, headers={"content-encoding": "gzip"}, content=b"")
    with pytest.raises(httpx2.DecodingError):
        await HttpNotes().look_at(response)

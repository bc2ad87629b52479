"""Limits of the connections, heads and bodies of a server."""

from __future__ import annotations

import asyncio
import logging
import socket
from types import SimpleNamespace

import pytest

from searchbus_runtime import protocol
from searchbus_runtime.protocol import MAX_HEAD_BYTES, ConnectionLimits, ConnectionWatch
from searchbus_runtime.server import HttpServer

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"


AT_ONCE = ConnectionLimits(head_timeout_s=0, body_timeout_s=0)


async def echo(scope, receive, send):
    """Reads the whole body."""
    if scope["type"] != "http":
        return
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def watches(monkeypatch):
    """The watches that servers make; each looks only when a test says so."""
    made = []

    class Kept(ConnectionWatch):
        def __init__(self, limits):
            super().__init__(limits, interval_s=3600)
            made.append(self)

    monkeypatch.setattr("searchbus_runtime.server.ConnectionWatch", Kept)
    return made


async def connect(server, data=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def look_until_closed(watch, reader):
    """What the client received, once the watch has closed its connection."""
    received = asyncio.create_task(reader.read())
    while not received.done():
        watch.look()
        await asyncio.sleep(0.01)
    return received.result()


@pytest.mark.parametrize("sent", [b"", b"POST / HT", HEAD[:-2], HEAD, HEAD + b"12345"])
async def test_unfinished_request_is_closed_with_408(watches, sent):
    """Nothing sent, a part of the head, a part of the body."""
    async with HttpServer.serving(echo, limits=AT_ONCE) as server, asyncio.timeout(60):
        reader, writer = await connect(server, sent)
        assert (await look_until_closed(watches[0], reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_bytes_after_an_answer_do_not_keep_a_connection(watches):
    """A trickle without end, e.g. of a body that was refused."""
    async with HttpServer.serving(echo, limits=AT_ONCE) as server, asyncio.timeout(60):
        reader, writer = await connect(server, HEAD + b"1234567890")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"P")
        await writer.drain()
        assert (await look_until_closed(watches[0], reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()


@pytest.fixture
async def slow(watches):
    """A server that answers once `go` is set; a request has come where `reached` is."""
    found = SimpleNamespace(reached=asyncio.Event(), go=asyncio.Event())

    async def app(scope, receive, send):
        found.reached.set()
        await found.go.wait()
        await echo(scope, receive, send)

    async with HttpServer.serving(app, limits=AT_ONCE, lifespan="off") as found.server:
        yield found


async def test_request_in_progress_and_idle_connection_stay(watches, slow):
    """The answer may take its time, and so may the next request."""
    async with asyncio.timeout(60):
        reader, writer = await connect(slow.server, HEAD + b"1234567890")
        await slow.reached.wait()
        watches[0].look()
        watches[0].look()
        slow.go.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        watches[0].look()
        watches[0].look()
        writer.write(HEAD + b"1234567890")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_next_request_does_not_end_the_one_in_progress(watches, slow):
    """Its body is not read before it is its turn, so the client cannot be late."""
    async with asyncio.timeout(60):
        reader, writer = await connect(slow.server, HEAD + b"1234567890" + HEAD + b"12345")
        await slow.reached.wait()
        watches[0].look()
        watches[0].look()
        slow.go.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await look_until_closed(watches[0], reader)).startswith(b"HTTP/1.1 408 ")
        writer.close()


async def test_time_starts_with_each_request(watches, monkeypatch):
    """A connection in use is not one that waits."""
    limits = ConnectionLimits(head_timeout_s=3600, body_timeout_s=3600)
    async with HttpServer.serving(echo, limits=limits) as server, asyncio.timeout(60):
        reader, writer = await connect(server, HEAD)
        for _ in range(5):
            watches[0].look()
        writer.write(b"1234567890")
        assert (await reader.read(12)) == b"HTTP/1.1 200"
        writer.close()


@pytest.mark.parametrize("limits", [ConnectionLimits(most=2), ConnectionLimits(most_per_address=2)])
async def test_one_connection_too_many_is_refused(watches, limits, caplog):
    """503, until another one ends; refusals are logged together."""
    caplog.set_level(logging.WARNING, logger=protocol.log.name)
    async with HttpServer.serving(echo, limits=limits) as server, asyncio.timeout(60):
        pairs = [await connect(server) for _ in range(2)]
        reader, writer = await connect(server)
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
        writer.close()
        pairs[0][1].close()
        while len(watches[0]._open) == 2:
            await asyncio.sleep(0.01)
        reader, writer = await connect(server, HEAD + b"1234567890")
        assert (await reader.read(12)) == b"HTTP/1.1 200"
        watches[0].look()
        assert "1 beyond the limit refused" in caplog.text
        writer.close()
        pairs[1][1].close()


async def test_requests_that_are_no_http_are_logged_together(watches, caplog):
    """A stranger could write over the audit log in a file of limited size."""
    caplog.set_level(logging.WARNING, logger=protocol.log.name)
    async with HttpServer.serving(echo) as server, asyncio.timeout(60):
        for _ in range(3):
            reader, writer = await connect(server, b"no HTTP\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()
        watches[0].look()
        watches[0].look()
    own = [record for record in caplog.records if record.name == protocol.log.name]
    assert ["3 requests that are no HTTP" in record.getMessage() for record in own] == [True]


@pytest.mark.parametrize("limits", [ConnectionLimits(most=3), ConnectionLimits(most_per_address=3)])
async def test_new_connection_takes_the_place_of_the_one_idle_longest(watches, limits, caplog):
    """One in use is not closed, however old it is. The log says that there is no room."""
    body = b"1234567890"
    async with HttpServer.serving(echo, limits=limits) as server, asyncio.timeout(60):
        busy, *idle = [await connect(server, HEAD + body) for _ in range(3)]
        for reader, _ in (busy, *idle):
            await reader.readuntil(b"\r\n\r\n")
        watches[0].look()
        busy[1].write(HEAD)
        further = [await connect(server, HEAD) for _ in range(3)]
        assert (await further[2][0].read()).startswith(b"HTTP/1.1 503 ")
        for reader, _ in idle:
            assert await reader.read() == b""
        with caplog.at_level(logging.WARNING):
            watches[0].look()
        assert "2 idle ones closed at the limit, 1 beyond the limit refused" in caplog.text
        for reader, writer in (busy, *further[:2]):
            writer.write(body)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, writer in (busy, *idle, *further):
            writer.close()


async def test_connection_whose_client_does_not_read_the_end_of_a_response_is_not_idle(watches):
    """Closed to make room, it would stay open for ever, beyond the limit."""
    answered = asyncio.Event()

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        transport = next(iter(vars(watches[0])["_open"])).transport
        await send({"type": "http.response.start", "status": 200})
        part = {"type": "http.response.body", "body": bytes(16 * 1024), "more_body": True}
        while not (transport.get_write_buffer_size() or transport.is_closing()):
            await send(part)
            await asyncio.sleep(0.01)  # the loop writes meanwhile
        await send({"type": "http.response.body"})
        answered.set()

    limits = ConnectionLimits(most=1, body_timeout_s=0)
    async with HttpServer.serving(app, limits=limits) as server, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
        writer.write(HEAD)
        await answered.wait()
        watches[0].look()
        further = await connect(server, HEAD)
        assert await further[0].readline() == b"HTTP/1.1 503 Service Unavailable\r\n"
        assert not reader.at_eof()
        while vars(watches[0])["_open"]:
            watches[0].look()
            await asyncio.sleep(0.01)
        for one in (writer, further[1]):
            one.close()


async def test_refusal_reaches_a_client_that_is_still_sending(monkeypatch):
    """A connection closed over unread bytes is reset, and its response lost with it."""
    monkeypatch.setattr(protocol, "_LINGER_S", 600)
    limits = ConnectionLimits(most=0)
    async with HttpServer.serving(echo, limits=limits) as server, asyncio.timeout(60):
        loop = asyncio.get_running_loop()
        with socket.create_connection((server.host, server.port)) as client:
            client.setblocking(False)
            for part in (HEAD, b"12345", b"67890"):
                await loop.sock_sendall(client, part)
                await asyncio.sleep(0.05)
            assert (await loop.sock_recv(client, 100)).startswith(b"HTTP/1.1 503 ")
            assert await loop.sock_recv(client, 100) == b""


@pytest.mark.parametrize("started", [False, True])
async def test_refusal_ends_the_request_in_progress_without_an_error(started, caplog):
    """What it responds later is for nobody, and no fault of the application."""
    reached, go, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(scope, receive, send):
        first = {"type": "http.response.start", "status": 200, "headers": []}
        if started:
            await send(first)
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
        reached.set()
        await go.wait()
        try:
            if not started:
                await send(first)
            await send({"type": "http.response.body", "body": b"a"})
        finally:
            over.set()

    async with HttpServer.serving(slow, lifespan="off") as server, asyncio.timeout(60):
        reader, writer = await connect(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reached.wait()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")
        assert (b"HTTP/1.1 400 " in await reader.read()) is not started
        go.set()
        await over.wait()
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
    ],
)
async def test_body_with_two_lengths_is_refused(lengths):
    """A proxy before the server may have read the other one."""
    async with HttpServer.serving(echo) as server, asyncio.timeout(60):
        request = b"POST / HTTP/1.1\r\nHost: x\r\n" + lengths + b"\r\n5\r\nabcde\r\n0\r\n\r\n"
        reader, writer = await connect(server, request)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


@pytest.mark.parametrize("hosts", [b"Host: x\r\nHost: y\r\n", b"host: x\r\nA: b\r\nHOST: x\r\n"])
async def test_two_hosts_are_refused(hosts):
    """A proxy before the server may have checked the other one; also behind another request."""
    async with HttpServer.serving(echo) as server, asyncio.timeout(60):
        for before in (b"", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"):
            reader, writer = await connect(server, before + b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
            answer = await reader.read()
            assert answer.count(b"HTTP/1.1 200 ") <= (1 if before else 0)
            assert before or answer.startswith(b"HTTP/1.1 400 ")
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"GET /" + b"a" * MAX_HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 1000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: "
        + b"a" * 16 * MAX_HEAD_BYTES,  # the first bytes behind a head do not count
    ],
    ids=["line", "address", "lines", "trailer"],
)
@pytest.mark.parametrize("piece_bytes", [1 << 20, 4096], ids=["whole", "pieces"])
async def test_head_that_is_too_large_is_refused(sent, piece_bytes):
    """Also before its end; it would be kept in memory, and copied with each piece."""
    async with HttpServer.serving(echo) as server, asyncio.timeout(60):
        reader, writer = await connect(server)
        answer = asyncio.create_task(reader.read())
        for start in range(0, len(sent), piece_bytes):
            writer.write(sent[start : start + piece_bytes])
            await asyncio.sleep(0)
        try:
            assert (await answer).startswith(b"HTTP/1.1 431 ")
        except ConnectionError:
            pass  # closed while more was on its way
        writer.close()


async def test_large_bodies_do_not_count_as_heads():
    """In pieces, in chunks, and with the head of the next request behind them."""
    async with HttpServer.serving(echo) as server, asyncio.timeout(60):
        size_bytes = 4 * MAX_HEAD_BYTES
        body = b"x" * size_bytes
        sent = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (size_bytes, body)
        chunk = b"%x\r\n%b\r\n" % (MAX_HEAD_BYTES, body[:MAX_HEAD_BYTES])
        sent += b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent += chunk * 4 + b"0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        reader, writer = await connect(server, sent)
        assert (await reader.read()).count(b"HTTP/1.1 200 ") == 3
        writer.close()


async def test_chunked_body_with_an_offer_of_another_protocol_is_refused():
    """The parser would not read it; no client that is known sends it."""
    offer = b"Connection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with HttpServer.serving(echo, lifespan="off") as server, asyncio.timeout(60):
        reader, writer = await connect(server, b"POST / HTTP/1.1\r\nHost: x\r\n" + offer)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def told(scope, receive, send):
    """Answers with the method and the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    said = b"%b %b" % (scope["method"].encode(), body)
    length = (b"content-length", b"%d" % len(said))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": said})


H2C = b"Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"


@pytest.mark.parametrize("piece_bytes", [1 << 20, 100, 1])
async def test_offer_of_another_protocol_changes_nothing(piece_bytes):
    """Clients that prefer HTTP/2 send it with their first request. Its body is a body: read as
    further requests, it would smuggle them past a proxy."""
    body = b"DELETE /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    sent = (
        b"POST / HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (H2C, len(body), body)
        + b"GET / HTTP/1.1\r\n%b\r\n" % H2C
        + b"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
    )
    async with HttpServer.serving(told, lifespan="off") as server, asyncio.timeout(60):
        reader, writer = await connect(server)
        for at in range(0, len(sent), piece_bytes):
            writer.write(sent[at : at + piece_bytes])
            await writer.drain()
            await asyncio.sleep(0)
        answers = (await reader.read()).split(b"HTTP/1.1 200 OK")[1:]
        writer.close()
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in answers]
    assert bodies == [b"POST " + body, b"GET ", b"PUT hi"]


async def test_many_offers_of_another_protocol_at_once_are_read_one_after_the_other():
    """However many there are in one piece."""
    async with HttpServer.serving(told, lifespan="off") as server, asyncio.timeout(60):
        last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        reader, writer = await connect(server, b"GET / HTTP/1.1\r\n%b\r\n" % H2C * 1500 + last)
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 1501
        writer.close()

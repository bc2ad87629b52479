"""The transport behaves as httpx2's own, which it replaces; with that one, tests are slow ones."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import httpx2
import pytest

from searchbus_attach.transports.http.connection import connect
from searchbus_attach.transports.http.transport import Http1Transport
from searchbus_testing import until

from .scripted import OK, Scripted, certified, closes, does_not_read, parts, resets, scripted, waits

TIMES = httpx2.Timeout(30)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with scripted() as found:
        yield found


@pytest.fixture(params=["ours", pytest.param("httpx2", marks=pytest.mark.slow)])
async def client(request) -> AsyncIterator[Callable[..., httpx2.AsyncClient]]:
    """Make a client: `client(max_connections=1)`."""
    made: list[httpx2.AsyncClient] = []

    def new(max_connections: int = 4) -> httpx2.AsyncClient:
        transport: httpx2.AsyncBaseTransport = Http1Transport(max_connections=max_connections)
        if request.param == "httpx2":
            limits = httpx2.Limits(max_connections=max_connections)
            transport = httpx2.AsyncHTTPTransport(limits=limits)
        made.append(httpx2.AsyncClient(transport=transport, timeout=TIMES))
        return made[-1]

    yield new
    for one in made:
        await one.aclose()


async def test_a_request_and_its_response(server, client):
    """Method, path, headers and body arrive as they are; so do status, headers and body."""
    server.answers = [b"HTTP/1.1 201 Made\r\nX-One: 1 \r\nX-Two: a\r\nX-Two: b\r\n"
                      b"Content-Length: 3\r\n\r\nyes"]  # fmt: skip
    response = await client().put(
        f"{server.url}/%C3%A9?q=a%20b", content=b"body", headers={b"X-Mine": b"\xe9 1"}
    )
    assert (response.status_code, response.content) == (201, b"yes")
    assert response.headers["x-one"] == "1"
    assert response.headers.get_list("x-two") == ["a", "b"]
    (sent,) = server.requests
    assert sent.startswith(b"PUT /mcp/%C3%A9?q=a%20b HTTP/1.1\r\n")
    assert b"\r\nX-Mine: \xe9 1\r\n" in sent
    assert sent.endswith(b"\r\n\r\nbody")


async def test_a_redirect(server, client):
    """Is followed with the body, where the client is asked to."""
    server.answers = [
        b"HTTP/1.1 307 Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", OK,
    ]  # fmt: skip
    response = await client().post(server.url, content=b"body", follow_redirects=True)
    assert response.content == b"ok"
    assert server.requests[1].startswith(b"POST /other HTTP/1.1\r\n")
    assert server.requests[1].endswith(b"\r\n\r\nbody")


async def test_a_compressed_body(server, client):
    """Is not decoded before its reader wants that."""
    data = gzip.compress(bytes(1000))
    server.answers = [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(data), data)
    ]
    async with client().stream("GET", server.url) as response:
        assert b"".join([part async for part in response.aiter_raw()]) == data


async def test_a_connection_is_used_again(server, client):
    """As long as the server keeps it."""
    http = client()
    for _ in range(3):
        assert (await http.post(server.url, json={})).content == b"ok"
    assert server.opened == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        parts(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", end=waits),
        parts(b"HTTP/1.0 200 OK\r\n\r\no", b"k"),
        parts(b"HTTP/1.1 200 OK\r\n\r\no", b"k"),
    ],
    ids=["close", "HTTP/1.0", "HTTP/1.0 without a length", "without a length"],
)
async def test_a_connection_is_not_used_again(server, client, answer):
    """Where the server does not keep it."""
    server.answers = [answer, OK]
    http = client()
    for _ in range(2):
        assert (await http.post(server.url)).content == b"ok"
    assert server.opened == 2


async def test_a_kept_connection_that_the_server_closes(server, client):
    """Is replaced; the request is not lost, and not sent twice."""
    http = client()
    for count in range(1, 4):
        server.answers = [parts(OK)]
        assert (await http.post(server.url)).content == b"ok"
        await server.until_closed(count)
    assert (server.opened, len(server.requests)) == (3, 3)


async def test_a_connection_that_servers_are_about_to_close_is_not_used():
    """Many do after 5 s without a request."""
    async with scripted() as server:
        transport = Http1Transport(max_connections=4)
        async with httpx2.AsyncClient(transport=transport, timeout=TIMES) as client:
            await client.get(server.url)
            (kept,) = transport._kept
            transport._kept[0] = replace(kept, since_s=kept.since_s - 4.5)
            await client.get(server.url)
        assert server.opened == 2


async def test_a_connection_that_is_made_when_the_client_is_closed_sends_nothing(monkeypatch):
    """Nobody would close it again."""
    connecting, may_connect = asyncio.Event(), asyncio.Event()

    async def connects(*fields):
        connecting.set()
        await may_connect.wait()
        return await connect(*fields)

    monkeypatch.setattr("searchbus_attach.transports.http.transport.connect", connects)
    async with scripted() as server:
        client = httpx2.AsyncClient(transport=Http1Transport(max_connections=4), timeout=TIMES)
        asking = asyncio.create_task(client.post(server.url))
        await connecting.wait()
        await client.aclose()
        may_connect.set()
        with pytest.raises(httpx2.LocalProtocolError, match="closed"):
            await asking
        await server.until_closed(1)
        assert server.requests == []


@pytest.mark.parametrize("end", [closes, resets])
async def test_a_connection_that_ends_during_a_request(server, client, end):
    """Fails as one that may have been received, and is not sent again."""
    server.answers = [OK, end]
    http = client()
    await http.post(server.url)
    with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
        await http.post(server.url)
    assert len(server.requests) == 2


async def test_nobody_listens(client):
    """Then nothing was sent."""
    for url in ("http://127.0.0.1:9/", "http://does-not-exist.invalid/", f"http://{'a' * 70}/"):
        with pytest.raises((httpx2.ConnectError, UnicodeError)):
            await client().post(url)


async def test_who_cannot_connect_says_which_requests_wait_for_a_response(server):
    """These may have been received."""
    server.answers = [waits]
    waiting: list[list[str]] = []
    transport = Http1Transport(
        max_connections=4, on_unreached=lambda found: waiting.append([r.method for r in found])
    )
    async with httpx2.AsyncClient(transport=transport, timeout=TIMES) as http:
        sent = asyncio.create_task(http.post(server.url))
        await until(lambda: server.requests)
        for _ in range(2):
            with pytest.raises(httpx2.ConnectError):
                await http.post("http://127.0.0.1:9/")
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)
    assert waiting == [["POST"], []]


async def test_a_server_that_does_not_accept(client):
    """A handshake of TLS that is not answered is a connection that was not made."""
    async with scripted() as plain:
        url = plain.url.replace("http:", "https:")
        with pytest.raises(httpx2.ConnectTimeout):
            await client().post(url, timeout=httpx2.Timeout(30, connect=0.1))


@pytest.mark.parametrize("answer", [waits, parts(OK[:-1], end=waits), parts(OK[:20], end=waits)])
async def test_a_server_that_falls_silent(server, client, answer):
    """Before or within its response."""
    server.answers = [answer]
    with pytest.raises(httpx2.ReadTimeout):
        await client().post(server.url, timeout=httpx2.Timeout(30, read=0.2))
    await server.until_closed(1)


async def test_a_server_that_does_not_read(server, client):
    """A large request has a limit of its own."""
    server.answers = [does_not_read]
    with pytest.raises(httpx2.WriteTimeout):
        await client().post(
            server.url, content=bytes(20 * 2**20), timeout=httpx2.Timeout(30, write=0.2)
        )


async def test_more_requests_than_connections(server, client):
    """Wait for one."""
    release = asyncio.Event()

    async def held(_, writer):
        writer.write(OK[:-1])
        await release.wait()
        writer.write(OK[-1:])

    server.answers = [held, OK]
    http = client(max_connections=1)
    first = asyncio.create_task(http.post(server.url))
    await until(lambda: server.requests)
    with pytest.raises(httpx2.PoolTimeout):
        await http.post(server.url, timeout=httpx2.Timeout(30, pool=0.1))
    second = asyncio.create_task(http.post(server.url))
    await asyncio.sleep(0.01)
    release.set()
    assert [(await one).content for one in (first, second)] == [b"ok", b"ok"]
    assert server.opened == 1


async def test_a_large_body(server, client):
    """Arrives whole, also in chunks, and where the client is slow."""
    data = hashlib.sha256(b"").digest() * 2**18
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (data[:5], data[5:70_000]))
    server.answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data),
        CHUNKED + chunks + b"%x\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(data), data),
        OK,
    ]
    http = client()
    async with http.stream("GET", server.url) as response:
        await asyncio.sleep(0.05)
        assert await response.aread() == data
    assert (await http.get(server.url)).content == data[:70_000] + data
    assert (await http.get(server.url)).content == b"ok"
    assert server.opened == 1


async def test_a_body_is_received_as_it_comes(server, client):
    """A part is there before the server sends the next one."""
    received = asyncio.Event()

    async def answer(_, writer):
        writer.write(CHUNKED + b"5\r\nfirst\r\n")
        await received.wait()
        writer.write(b"6\r\nsecond\r\n0\r\n\r\n")

    server.answers = [answer]
    found = []
    async with client().stream("GET", server.url) as response:
        async for chunk in response.aiter_raw():
            found.append(chunk)
            received.set()
    assert found == [b"first", b"second"]


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"zz\r\nwhat",
        parts(CHUNKED + b"5\r\nev", b"ent"),
        parts(CHUNKED + b"5\r\nevent\r\n"),
        parts(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nevent"),
    ],
    ids=["no size", "within a chunk", "no last chunk", "too short"],
)
async def test_a_body_that_ends_early(server, client, answer):
    """Is not taken for a whole one; its connection is closed."""
    server.answers = [answer]
    with pytest.raises(httpx2.RemoteProtocolError):
        await client().get(server.url)
    await server.until_closed(1)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 40_000,
    ],
    ids=["protocol", "header", "a long header", "many headers"],
)
async def test_an_answer_that_is_not_http(server, client, answer):
    """Also one whose head does not end."""
    server.answers = [parts(answer, end=waits)]
    with pytest.raises(httpx2.RemoteProtocolError):
        await client().get(server.url)
    await server.until_closed(1)


async def test_responses_before_the_response(server, client):
    """100 and 103 are passed over."""
    first = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    server.answers = [first + OK, parts(first, OK[:10], OK[10:], end=waits)]
    http = client()
    for _ in range(2):
        response = await http.post(server.url)
        assert (response.status_code, response.content) == (200, b"ok")
        assert "link" not in response.headers


@pytest.mark.parametrize("status", [204, 304])
async def test_responses_without_a_body(server, client, status):
    """By their status."""
    server.answers = [b"HTTP/1.1 %d X\r\nX: 1\r\n\r\n" % status, OK]
    http = client()
    assert (await http.get(server.url)).status_code == status
    assert (await http.get(server.url)).content == b"ok"
    assert server.opened == 1


@pytest.mark.parametrize("answer", [waits, parts(CHUNKED + b"1\r\na\r\n", end=waits)])
async def test_cancellation_closes_the_connection(server, client, answer):
    """Before and within the response."""
    server.answers = [answer]
    running = asyncio.create_task(client().get(server.url))
    await until(lambda: server.requests)
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await server.until_closed(1)


async def test_the_end_of_a_client(server, client):
    """Closes its connections, kept ones and others."""
    http = client()
    server.answers = [OK, waits]
    await http.get(server.url)
    first = asyncio.create_task(http.get(server.url))
    await until(lambda: len(server.requests) == 2)
    server.answers = [OK]
    await http.get(server.url)
    await http.aclose()
    with pytest.raises(httpx2.TransportError):
        await first


async def test_tls(tmp_path, client, monkeypatch):
    """With an authority that the environment names, and not without it."""
    tls, authority = certified(tmp_path)
    async with scripted(tls) as server:
        with pytest.raises(httpx2.ConnectError):
            await client().post(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        http = client()
        data = bytes(range(256)) * 4096
        server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data]
        for _ in range(2):
            assert (await http.post(server.url, content=data)).content == data
        assert server.requests[0].endswith(b"\r\n\r\n" + data)
        assert len(server.requests) == 2


@pytest.mark.parametrize("value", ["a\r\nX-Other: 1", "a\0", "a\nb"])
async def test_headers_that_would_be_others(server, client, value):
    """Are not sent."""
    with pytest.raises(httpx2.LocalProtocolError):
        await client().post(server.url, headers={"X": value})
    assert server.requests == []


@pytest.mark.parametrize("more", [OK, b"more", b"HTTP/1.1 200 OK\r\n"])
async def test_more_than_the_response(server, more):
    """Is not taken for the next response, as httpx2's own transport does."""
    server.answers = [OK + more, parts(OK, more, end=waits), OK]
    async with httpx2.AsyncClient(transport=Http1Transport(max_connections=1)) as http:
        for count in range(1, 4):
            assert (await http.post(server.url)).content == b"ok"
            assert server.opened == count
            await server.until_closed(min(count, 2))


async def test_an_answer_before_the_request_is_read(server):
    """Is received, though the server does not read the rest."""

    async def refuses(reader, writer):
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await does_not_read()

    server.answers = [refuses]
    async with httpx2.AsyncClient(transport=Http1Transport(max_connections=1)) as http:
        response = await http.post(server.url, content=bytes(20 * 2**20))
    assert (response.status_code, response.content) == (413, b"no")


async def test_what_only_httpx2s_own_does(server):
    """Is refused, not done wrongly."""
    async with httpx2.AsyncClient(transport=Http1Transport(max_connections=1)) as http:
        for method in ("HEAD", "CONNECT"):
            with pytest.raises(httpx2.UnsupportedProtocol):
                await http.request(method, server.url)
        with pytest.raises(httpx2.UnsupportedProtocol):
            await http.get("ftp://127.0.0.1/")

        async def endless():
            yield b""

        with pytest.raises(httpx2.UnsupportedProtocol):
            await http.post(server.url, content=endless())
    assert server.opened == 0

"""HTTP requests to an upstream that misbehaves."""

from __future__ import annotations

import asyncio
import gzip
import socket

import pytest

from searchbus_upstream import (
    Cookies,
    GuardedBackend,
    HttpClient,
    HttpRequest,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)

PLAIN = b"hello " * 100


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.readuntil(b"\r\n\r\n")
    path = request.split()[1].decode()

    def head(length: int | None, *more: str) -> bytes:
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/plain", "Connection: close", *more]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    try:
        if path == "/plain":
            writer.write(head(len(PLAIN)) + PLAIN)
        elif path == "/gzip":
            assert b"accept-encoding: gzip\r\n" in request.lower()
            body = gzip.compress(PLAIN)
            writer.write(head(len(body), "Content-Encoding: gzip") + body)
        elif path == "/members":
            parts = [gzip.compress(PLAIN[start : start + 100]) for start in range(0, 600, 100)]
            writer.write(head(None, "Content-Encoding: gzip") + parts[0] + parts[1] + parts[2][:1])
            await writer.drain()
            writer.write(parts[2][1:] + b"".join(parts[3:]) + b"\0" * 100)
        elif path == "/empty-members":
            writer.write(head(None, "Content-Encoding: gzip") + gzip.compress(b"") * 5000)
        elif path == "/bomb":
            body = gzip.compress(b"\0" * 50_000_000)
            writer.write(head(len(body), "Content-Encoding: gzip") + body)
        elif path == "/large":
            writer.write(head(3_000_000) + b"x" * 3_000_000)
        elif path == "/cut":
            writer.write(head(10_000) + PLAIN)
        elif path == "/redirect":
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: /plain\r\nContent-Length: 0\r\n\r\n")
        elif path == "/odd":
            writer.write(head(4, "Content-Encoding: br") + b"\x0b\x02\x80\x03")
        elif path == "/broken":
            writer.write(head(8, "Content-Encoding: gzip") + b"nonsense")
        elif path == "/reset":
            writer.transport.abort()
        elif path == "/drip":
            writer.write(head(5000))
            for _ in range(2000):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
        await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def url():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.fixture
async def client():
    client = HttpClient()
    yield client
    await client.close()


async def get(client, url, *, timeout_s=30.0, max_bytes=1_000_000):
    return await client.send(HttpRequest("GET", url), timeout_s=timeout_s, max_bytes=max_bytes)


@pytest.mark.parametrize("path", ["/plain", "/gzip", "/members"])
async def test_body_arrives_decoded(url, client, path):
    """Also gzip of several members (RFC 1952, 2.2), with padding behind the last."""
    reply = await get(client, url + path)
    assert (reply.status, reply.body, reply.truncated) == (200, PLAIN, False)


async def test_dripping_upstream_ends_at_the_deadline(url, client):
    """Though every single read is quick enough."""
    with pytest.raises(UpstreamTimeoutError):
        await get(client, url + "/drip", timeout_s=0.4)


@pytest.mark.parametrize("path", ["/bomb", "/large"])
async def test_body_over_the_limit_is_refused(url, client, path):
    """Whether it is over the limit as sent or only once decoded."""
    with pytest.raises(UpstreamUnreachableError, match="over 1000000 bytes"):
        await get(client, url + path)


@pytest.mark.parametrize("path", ["/bomb", "/large"])
async def test_body_over_the_limit_is_cut_where_that_is_asked_for(url, client, path):
    """Of some files the beginning is enough."""
    request = HttpRequest("GET", url + path, cut=True)
    reply = await client.send(request, timeout_s=30.0, max_bytes=1000)
    assert (len(reply.body), reply.truncated) == (1000, False)


async def test_cut_off_body_is_returned_and_marked(url, client):
    """A page without its end may still hold complete rows."""
    reply = await get(client, url + "/cut")
    assert reply.truncated
    assert reply.body == PLAIN


async def test_redirects_are_not_followed(url, client):
    """The caller checks and follows them itself."""
    assert (await get(client, url + "/redirect")).status == 302


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/reset", "connection"),
        ("/odd", "encoding"),
        ("/broken", "encoding"),
        ("/empty-members", "encoding"),
    ],
)
async def test_broken_responses_are_unreachable(url, client, path, kind):
    """The error has a type, and its text names no address."""
    with pytest.raises(UpstreamUnreachableError) as caught:
        await get(client, url + path)
    assert (caught.value.kind, caught.value.sent) == (kind, True)
    assert "127.0.0.1" not in str(caught.value)


async def test_without_a_connection_nothing_was_sent(client):
    """So that the request can be sent again, whatever it costs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    guarded = HttpClient(backend=GuardedBackend())
    for sender in (client, guarded):
        with pytest.raises(UpstreamUnreachableError) as caught:
            await get(sender, f"http://127.0.0.1:{port}/")
        assert not caught.value.sent
    await guarded.close()


async def test_local_address_is_where_it_comes_from():
    """Connections leave from the given source address."""
    seen = []

    async def handle_once(reader, writer):
        seen.append(writer.get_extra_info("peername")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle_once, "127.0.0.1", 0)
    bound = HttpClient(local_address="127.0.0.7")
    await get(bound, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    await bound.close()
    server.close()
    assert seen == ["127.0.0.7"]


async def test_form_and_params_are_sent():
    """The form as the body, the parameters in the URL."""
    seen = []

    async def handle_once(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head.split(b"\r\n")[0].decode())
        seen.append((await reader.readexactly(7)).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    client = HttpClient()
    request = HttpRequest("POST", url, params={"a": "1"}, form={"b": "x y z"})
    assert (await client.send(request, timeout_s=30, max_bytes=10)).status == 200
    await client.close()
    server.close()
    assert seen == ["POST /x?a=1 HTTP/1.1", "b=x+y+z"]


def test_proxy_and_backend_exclude_each_other():
    """A proxy would open the connections past the backend's checks."""
    with pytest.raises(ValueError, match="not both"):
        HttpClient(proxy="http://127.0.0.1:1", backend=GuardedBackend())


async def test_no_cookie_is_kept_and_any_text_may_be_a_header():
    """A cookie would go with the requests of other callers; an ETag is whatever a site sends. Those
    of one chain of redirects are the caller's."""
    seen = []

    async def handle_once(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 204 No Content\r\nSet-Cookie: who=alice\r\nConnection: close\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    client = HttpClient()
    for _ in range(2):
        request = HttpRequest("GET", url, headers={"If-None-Match": '"é"'})
        await client.send(request, timeout_s=30, max_bytes=10)
    cookies = Cookies()
    for _ in range(2):
        request = HttpRequest("GET", url, cookies=cookies)
        await client.send(request, timeout_s=30, max_bytes=10)
    await client.close()
    server.close()
    *seen, first, second = seen
    assert b"alice" not in first
    assert b"\r\nCookie: who=alice\r\n" in second
    for head in seen:
        assert b"alice" not in head
        assert 'If-None-Match: "é"'.encode() in head


@pytest.mark.parametrize(
    "url", ["http://", "nonsense", "http://[::1", "http://a b/", "http://xn--.example/"]
)
async def test_invalid_urls_are_unreachable(client, url):
    """No other error leaves the client."""
    with pytest.raises(UpstreamUnreachableError):
        await get(client, url)

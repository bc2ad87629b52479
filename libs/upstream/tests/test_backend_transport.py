"""The httpx transport over a network backend."""

from __future__ import annotations

import asyncio
import inspect

import httpcore
import httpx
import pytest

from searchbus_upstream.http import BackendTransport


class CountingBackend(httpcore.AnyIOBackend):
    """Opens real connections and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[str, int, str | None]] = []

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.opened.append((host, port, local_address))
        return await super().connect_tcp(host, port, timeout, local_address, socket_options)


class FailingBackend(httpcore.AsyncNetworkBackend):
    """Raises the same error for every connection."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def connect_tcp(self, *arguments, **options):
        raise self.error


def client_of(backend, **options) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=4, max_keepalive_connections=2)
    return httpx.AsyncClient(transport=BackendTransport(backend, limits=limits, **options))


@pytest.fixture
async def echo():
    """A server that replies with the request's body and keeps the connection."""

    async def handle(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [
                    int(line[15:]) for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ]  # fmt: skip
                body = await reader.readexactly(sum(lengths))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                if body == b"cut":
                    writer.write(b"HTTP/1.1 nonsense\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()


RAISED = {
    kind for kind in vars(httpcore).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
    and kind is not httpcore.ConnectionNotAvailable and not issubclass(kind, httpcore.ProxyError)
}  # fmt: skip
"""What httpcore raises where there is no proxy."""


async def test_requests_share_a_connection_that_the_backend_opened(echo):
    """Bodies go both ways."""
    backend = CountingBackend()
    async with client_of(backend, local_address="127.0.0.9") as client:
        for body in (b"one", b"two"):
            reply = await client.post(echo, content=body)
            assert (reply.status_code, reply.content) == (200, body)
    assert len(backend.opened) == 1
    assert backend.opened[0][2] == "127.0.0.9"


async def test_limit_of_connections_is_kept(echo):
    """More requests than connections wait for one."""
    backend = CountingBackend()
    async with client_of(backend) as client:
        replies = await asyncio.gather(*(client.post(echo, content=b"%d" % n) for n in range(20)))
    assert [reply.content for reply in replies] == [b"%d" % n for n in range(20)]
    assert len(backend.opened) <= 20


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpcore.ConnectError("x"), httpx.ConnectError),
        (httpcore.ConnectTimeout("x"), httpx.ConnectTimeout),
        (httpcore.ReadError("x"), httpx.ReadError),
        (httpcore.RemoteProtocolError("x"), httpx.RemoteProtocolError),
        (httpcore.UnsupportedProtocol("x"), httpx.UnsupportedProtocol),
    ],
)
async def test_errors_of_httpcore_become_those_of_httpx(raised, expected):
    """The original error stays the cause."""
    async with client_of(FailingBackend(raised)) as client:
        with pytest.raises(expected) as caught:
            await client.get("http://a.example.com/")
    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("kind", sorted(RAISED, key=lambda kind: kind.__name__))
async def test_every_error_of_httpcore_has_its_counterpart(kind):
    """A new error of httpcore fails here, not in production."""
    async with client_of(FailingBackend(kind("x"))) as client:
        with pytest.raises(httpx.TransportError):
            await client.get("http://a.example.com/")


def test_the_override_of_httpx_is_needed_and_is_where_it_looks():
    """A release that takes a network backend, or keeps its pool elsewhere, ends the override."""
    assert "network_backend" not in inspect.signature(httpx.AsyncHTTPTransport).parameters
    assert isinstance(httpx.AsyncHTTPTransport()._pool, httpcore.AsyncConnectionPool)

"""The HTTP server that leaves the signals to its process."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from contextlib import AsyncExitStack

import httpx
import pytest
import uvicorn
import uvloop

from searchbus_runtime import server as module
from searchbus_runtime.protocol import ConnectionWatch
from searchbus_runtime.server import HttpServer, bind
from searchbus_testing import until


async def hello(scope, receive, send):
    """Answers 200 to every request; a lifespan that it does not know ends at once."""
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_free_port_is_taken_and_released():
    """`serving` answers inside its block and refuses connections after it."""
    async with HttpServer.serving(hello) as server, httpx.AsyncClient(trust_env=False) as http:
        assert server.port > 0
        assert f"http://127.0.0.1:{server.port}" == server.url
        assert (await http.get(server.url)).content == b"hello"
    async with httpx.AsyncClient(trust_env=False) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(server.url)


@pytest.mark.parametrize(
    ("host", "addresses"), [("::1", ["[::1]"]), ("::", ["[::1]", "127.0.0.1"])]
)
async def test_address_of_ipv6_is_served(host, addresses):
    """Every address of IPv6 is also every one of IPv4, as with other servers."""
    try:
        bind("::1", 0).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with (
        HttpServer.serving(hello, host=host) as server,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        for address in addresses:
            assert (await http.get(f"http://{address}:{server.port}")).content == b"hello"


async def test_signal_handlers_stay_those_of_the_process():
    """uvicorn alone would replace them and end the process in its own order."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with HttpServer.serving(hello):
        assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


async def test_taken_port_is_an_os_error():
    """The caller can tell it from a failure of the application."""
    async with HttpServer.serving(hello) as first:
        with pytest.raises(OSError, match="in use"):
            await HttpServer.start(hello, port=first.port)


async def test_application_that_fails_at_its_start_is_reported():
    """Instead of waiting for ever."""

    async def broken(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="failed while it started"):
            await HttpServer.start(broken, lifespan="on")


async def test_a_start_that_is_cancelled_tells_its_application_of_the_end():
    """As a normal stop does."""
    told = []

    async def lasting(scope, receive, send):
        for step in ("startup", "shutdown"):
            told.append((await receive())["type"])
            starting.cancel()
            await send({"type": f"lifespan.{step}.complete"})

    starting = asyncio.create_task(HttpServer.start(lasting))
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert told == ["lifespan.startup", "lifespan.shutdown"]


async def test_server_has_a_timer_only_while_somebody_is_connected(monkeypatch):
    """And the first answer afterwards has the date of its moment."""
    ticks = []
    tick = uvicorn.Server.on_tick

    async def counted(server, counter):
        ticks.append(server)
        return await tick(server, counter)

    monkeypatch.setattr(uvicorn.Server, "on_tick", counted)
    monkeypatch.setattr(
        module, "ConnectionWatch", lambda limits: ConnectionWatch(limits, interval_s=0.02)
    )
    async with HttpServer.serving(hello) as server, asyncio.timeout(60):
        await until(lambda: len(ticks) == 1)
        for _ in range(10):
            await asyncio.sleep(0.02)
        assert len(ticks) == 1
        server._server.server_state.default_headers = [(b"date", b"long ago")]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert b"long ago" not in await reader.readuntil(b"\r\n\r\n")
        await until(lambda: len(ticks) > 4)
        writer.close()
        await until(lambda: not server._server._watch.busy.is_set())


async def test_forced_stop_does_not_wait_for_open_requests():
    """A request that never ends holds up nobody."""
    reached = asyncio.Event()

    async def endless(scope, receive, send):
        if scope["type"] == "http":
            reached.set()
            await asyncio.Event().wait()

    server = await HttpServer.start(endless, timeout_graceful_shutdown=600)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http, asyncio.timeout(60):
        request = asyncio.create_task(http.get(server.url))
        await reached.wait()
        await server.stop(force=True)
        request.cancel()


def test_clients_that_come_at_once_wait_for_few_turns():
    """uvloop accepts one connection of a listening handle in a turn of the loop."""
    clients, turns = 16, 8

    async def accepted() -> int:
        async with HttpServer.serving(hello) as server, AsyncExitStack() as stack:
            for _ in range(clients):  # the kernel completes them, before the server accepts
                address = (server.host, server.port)
                stack.callback(socket.create_connection(address, timeout=60).close)
            for _ in range(turns):
                await asyncio.sleep(0)
            return len(server._server.server_state.connections)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(accepted()) == clients


@pytest.mark.parametrize("error", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
async def test_every_address_is_those_of_ipv4_where_the_kernel_has_no_ipv6(error, monkeypatch):
    """Images listen on `::` wherever they run."""
    create = socket.create_server

    def without_ipv6(address, *, family, **options):
        if family == socket.AF_INET6:
            raise OSError(error, "no IPv6")
        return create(address, family=family, **options)

    monkeypatch.setattr(socket, "create_server", without_ipv6)
    with bind("::", 0) as listener:
        assert listener.getsockname()[0] == "0.0.0.0"
    with pytest.raises(OSError, match="no IPv6"):
        bind("::1", 0)


async def test_a_taken_port_is_not_bound_in_another_family():
    """Two servers on one port would each get a part of the requests."""
    with bind("::", 0) as listener, pytest.raises(OSError, match="in use"):
        bind("::", listener.getsockname()[1])


async def test_connections_send_at_once():
    """Also on asyncio's own loop, which would wait for the client's acknowledgement."""
    with bind("127.0.0.1", 0) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
@pytest.mark.parametrize(
    ("trusted", "seen"),
    [
        ((), "http 127.0.0.1"),
        (("10.0.0.0/8",), "http 127.0.0.1"),
        (("10.0.0.0/8", "127.0.0.1"), "https 192.0.2.7"),
        (("127.0.0.0/8",), "https 192.0.2.7"),
    ],
)
async def test_forwarded_headers_are_believed_from_trusted_proxies_only(
    monkeypatch, trusted, seen, host
):
    """Any other client could take the address of another; uvicorn's variable changes nothing.

    A client of IPv4 has its own address where both families are served.
    """
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")

    async def client(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            body = f"{scope['scheme']} {scope['client'][0]}".encode()
            await send({"type": "http.response.body", "body": body})

    headers = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}
    async with (
        HttpServer.serving(client, host=host, trusted_proxies=trusted) as server,
        httpx.AsyncClient(trust_env=False, headers=headers) as http,
    ):
        assert (await http.get(f"http://127.0.0.1:{server.port}")).text == seen

"""Connections have limits; what they do not concern is as uvicorn does it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from searchbus_runtime.protocol import MAX_HEAD_BYTES, Connection, ConnectionLimits, ConnectionWatch
from searchbus_runtime.server import HttpServer

REQUEST = b"GET /a%20b?c=1 HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTH = (b"content-length", b"5")


class FakeTransport:
    """Keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return None

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.written.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def transport_of(send: Any) -> FakeTransport:
    """Below the transport that an application's response is written to."""
    found: FakeTransport = send.__self__.transport._transport
    return found


def answering(*bodies: bytes, status: int = 200, headers: tuple[Any, ...] = (LENGTH,)) -> Any:
    """An application that sends a body in these parts."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for number, body in enumerate(bodies, 1):
            more = number < len(bodies)
            await send({"type": "http.response.body", "body": body, "more_body": more})

    return app


async def exchange(app: Any, *requests: bytes, joining: bool = True) -> FakeTransport:
    """What one connection writes for what it receives, one request after the other; without
    `joining`, one of uvicorn's."""
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    state = ServerState()
    fields: dict[str, Any] = {"config": config, "server_state": state, "app_state": {}}
    connection = HttpToolsProtocol(**fields)
    if joining:
        connection = Connection(ConnectionWatch(ConnectionLimits()), **fields)
    transport = FakeTransport()
    connection.connection_made(transport)
    for request in requests or (REQUEST,):
        connection.data_received(request)
        async with asyncio.timeout(60):
            while state.tasks:
                await asyncio.sleep(0)
    return transport


async def test_head_and_body_are_one_write() -> None:
    """A system call each costs a twentieth of a call, and wakes the client twice."""
    (response,) = (await exchange(answering(b"hello"))).written
    assert response.startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.endswith(b"\r\n\r\nhello")


async def test_uvicorn_writes_head_and_body_apart() -> None:
    """`JoiningTransport` is of no more use once it does not."""
    assert len((await exchange(answering(b"hello"), joining=False)).written) == 2


async def test_head_does_not_wait_for_the_body() -> None:
    """A stream of events begins before its first event."""
    begun: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        await asyncio.sleep(0)
        begun.extend(transport_of(send).written)
        await send({"type": "http.response.body", "body": b"hello"})

    transport = await exchange(app)
    assert begun[0].startswith(b"HTTP/1.1 200 OK\r\n")
    assert transport.written == [*begun, b"hello"]


async def test_head_is_sent_before_a_connection_closes() -> None:
    """Also where the application fails right after it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [LENGTH]})
        raise RuntimeError("no body")

    transport = await exchange(app)
    assert transport.closed
    assert [part[:15] for part in transport.written] == [b"HTTP/1.1 200 OK"]


async def test_nothing_is_asked_of_the_client_after_the_response() -> None:
    """The next response would begin with it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answering(b"hello")(scope, receive, send)
        await receive()

    expects = b"\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    transport = await exchange(app, REQUEST.replace(b"\r\n\r\n", expects))
    assert b"".join(transport.written).endswith(b"\r\n\r\nhello")


@pytest.mark.parametrize("length", [b"4", b"6", b"x"])
async def test_wrong_length_does_not_shift_the_next_response(length: bytes) -> None:
    """The connection ends, so that no byte is read as part of another response."""
    transport = await exchange(answering(b"hello", headers=((b"content-length", length),)))
    assert transport.closed


async def test_limit_of_a_head_is_for_one_request() -> None:
    """Not for all of a connection that is kept for long."""
    request = REQUEST.replace(b"Host", b"X-Long: " + b"a" * 1000 + b"\r\nHost")
    transport = await exchange(answering(b"hello"), *[request] * (MAX_HEAD_BYTES // 1000 + 1))
    assert b"".join(transport.written).count(b"HTTP/1.1 200 OK") == MAX_HEAD_BYTES // 1000 + 1
    assert not transport.closed


async def test_request_leaves_no_cycle_of_references() -> None:
    """It would stay until the collector runs, and each request would use memory that is cold."""
    requests: list[weakref.ref[Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        requests.append(weakref.ref(send.__self__))
        await answering(b"hello")(scope, receive, send)

    gc.disable()
    try:
        await exchange(app, REQUEST, REQUEST)  # the connection keeps the last one
        assert requests[0]() is None
    finally:
        gc.enable()


async def test_pipelined_requests_are_answered_in_order() -> None:
    """A second request that arrives before the first is answered."""
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["query_string"])
        await asyncio.sleep(0)
        await answering(scope["query_string"].rjust(5))(scope, receive, send)

    both = b"".join(REQUEST.replace(b"c=1", number) for number in (b"1", b"2", b"3"))
    transport = await exchange(app, both)
    assert seen == [b"1", b"2", b"3"]
    found = b"".join(transport.written)
    assert found.index(b"    1") < found.index(b"    2") < found.index(b"    3")


async def test_scope_is_as_uvicorns() -> None:
    """The decoded path beside the raw one."""
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await answering(b"hello")(scope, receive, send)

    for options in ({}, {"http": "httptools"}):
        async with (
            HttpServer.serving(app, lifespan="off", **options) as server,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            await client.post(f"{server.url}/a%20b?c=1", content=b"x")
    own, uvicorns = scopes
    assert (own["path"], own["raw_path"], own["query_string"]) == ("/a b", b"/a%20b", b"c=1")
    assert own.keys() == uvicorns.keys()
    same = own.keys() - {"client", "server", "headers"}
    assert {key: own[key] for key in same} == {key: uvicorns[key] for key in same}


async def test_idle_connection_is_closed_without_an_answer() -> None:
    """By the watch, some time after the last response."""
    watch = ConnectionWatch(ConnectionLimits(idle_timeout_s=0))
    config = uvicorn.Config(answering(b"hello"), lifespan="off", log_config=None, access_log=False)
    state, transport = ServerState(), FakeTransport()
    connection = Connection(watch, config=config, server_state=state, app_state={})
    connection.connection_made(transport)
    connection.data_received(REQUEST)
    while state.tasks:
        await asyncio.sleep(0)
    assert (connection.waits_for() or ("",))[0] == "request"
    watch.look()
    watch.look()
    assert transport.closed
    assert b"".join(transport.written).endswith(b"\r\n\r\nhello")

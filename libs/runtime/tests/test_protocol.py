"""uvicorn's protocol with less work a request: what is usual is written at once, all else as ever."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from searchbus_runtime.protocol import Connection, ConnectionLimits, ConnectionWatch, responder
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

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def answering(*bodies: bytes, status: int = 200, headers: tuple[Any, ...] = (LENGTH,)) -> Any:
    """An application that sends a body in these parts."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for number, body in enumerate(bodies, 1):
            more = number < len(bodies)
            await send({"type": "http.response.body", "body": body, "more_body": more})

    return app


async def exchange(app: Any, request: bytes = REQUEST) -> FakeTransport:
    """What one connection writes for what it receives."""
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    state = ServerState()
    connection = Connection(
        ConnectionWatch(ConnectionLimits()), config=config, server_state=state, app_state={}
    )
    transport = FakeTransport()
    connection.connection_made(transport)
    connection.data_received(request)
    async with asyncio.timeout(60):
        while state.tasks:
            await asyncio.sleep(0)
    return transport


async def test_usual_response_is_one_write() -> None:
    """Head and body together; the connection stays open."""
    transport = await exchange(answering(b"hello"))
    (written,) = transport.written
    assert written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    assert not transport.closed


@pytest.mark.parametrize(
    ("app", "request_bytes", "expected"),
    [
        (answering(b"he", b"llo"), REQUEST, b"content-length: 5\r\n\r\nhello"),
        (answering(b"hello", headers=()), REQUEST, b"chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        (answering(b"hello"), REQUEST.replace(b"GET", b"HEAD"), b"content-length: 5\r\n\r\n"),
        (answering(status=204, headers=()), REQUEST, b""),
    ],
)
async def test_every_other_response_is_uvicorns(
    app: Any, request_bytes: bytes, expected: bytes
) -> None:
    """In parts, without a length, to a HEAD request; a head without a body is not sent."""
    transport = await exchange(app, request_bytes)
    assert b"".join(transport.written).endswith(expected)


@pytest.mark.parametrize(
    ("request_bytes", "headers"),
    [
        (REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), (LENGTH,)),
        (REQUEST.replace(b"1.1", b"1.0"), (LENGTH,)),
        (REQUEST, (LENGTH, (b"connection", b"close"))),
    ],
)
async def test_connection_is_closed_where_one_side_wants_it(
    request_bytes: bytes, headers: Any
) -> None:
    transport = await exchange(answering(b"hello", headers=headers), request_bytes)
    assert b"connection: close\r\n" in b"".join(transport.written)
    assert transport.closed


@pytest.mark.parametrize("header", [(b"a\nb", b"c"), (b"a", b"b\r\nset-cookie: c")])
async def test_header_that_would_split_the_response_is_refused(header: Any) -> None:
    transport = await exchange(answering(b"hello", headers=(LENGTH, header)))
    assert b"set-cookie" not in b"".join(transport.written)
    assert b"hello" not in b"".join(transport.written)


@pytest.mark.parametrize("length", [b"4", b"6", b"x"])
async def test_wrong_length_does_not_shift_the_next_response(length: bytes) -> None:
    """The connection ends, so that no byte is read as part of another response."""
    transport = await exchange(answering(b"hello", headers=((b"content-length", length),)))
    assert transport.closed


@pytest.mark.parametrize("at_once", [False, True])
async def test_nothing_is_asked_of_the_client_after_the_response(at_once: bool) -> None:
    """The next response would begin with it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if at_once:
            responder(send)(200, b"content-length: 5\r\n", b"hello")
        else:
            await answering(b"hello")(scope, receive, send)
        await receive()

    expects = b"\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    transport = await exchange(app, REQUEST.replace(b"\r\n\r\n", expects))
    assert b"".join(transport.written).endswith(b"\r\n\r\nhello")


async def test_failure_before_the_body_is_a_500() -> None:
    """Also where the application has already sent a head."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    transport = await exchange(app)
    assert b"".join(transport.written).startswith(b"HTTP/1.1 500 ")


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

    for protocol in ({}, {"http": "httptools"}):
        async with (
            HttpServer.serving(app, lifespan="off", **protocol) as server,
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
    assert len(transport.written) == 1


def responding(body: bytes, *, found: list[Any] | None = None) -> Any:
    """An application that responds at once where it can; `found` gets what it was told."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        respond = responder(send)
        lines = b"content-length: %d\r\n" % len(body)
        responded = respond is not None and respond(200, lines, body)
        if found is not None:
            found.append(responded)
        if not responded:
            await answering(body, headers=((b"content-length", b"%d" % len(body)),))(
                scope, receive, send
            )

    return app


@pytest.mark.parametrize(
    ("request_bytes", "at_once"),
    [
        (REQUEST, True),
        (REQUEST.replace(b"GET", b"HEAD"), False),
        (REQUEST.replace(b"Host", b"Connection: close\r\nHost"), False),
    ],
)
async def test_response_at_once_is_as_one_of_events(request_bytes: bytes, at_once: bool) -> None:
    """The same bytes, where all is as usual; else it is refused, and nothing was sent."""
    found: list[Any] = []
    responded = await exchange(responding(b"hello", found=found), request_bytes)
    events = await exchange(answering(b"hello"), request_bytes)
    assert found == [at_once]
    assert b"".join(responded.written) == b"".join(events.written)
    assert responded.closed == events.closed


async def test_response_at_once_is_refused_after_the_head() -> None:
    """The head of the events counts."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 201, "headers": [LENGTH]})
        assert not responder(send)(200, b"", b"")
        await send({"type": "http.response.body", "body": b"hello"})
        assert not responder(send)(200, b"", b"")

    transport = await exchange(app)
    assert b"".join(transport.written).startswith(b"HTTP/1.1 201 Created\r\n")
    assert b"".join(transport.written).count(b"HTTP/1.1") == 1


async def test_what_replaces_send_is_not_left_out() -> None:
    """E.g. a middleware that adds a header."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def adding(event: Any) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], (b"x-added", b"1")]}
            await send(event)

        await responding(b"hello")(scope, receive, adding)

    transport = await exchange(app)
    assert b"x-added: 1\r\n" in b"".join(transport.written)


async def test_request_leaves_no_cycle_of_references() -> None:
    """It would stay until the collector runs, and each request would use memory that is cold: 7 %
    of the CPU of a search."""
    requests: list[weakref.ref[Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        requests.append(weakref.ref(send.__self__))
        await responding(b"hello")(scope, receive, send)

    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    state = ServerState()
    connection = Connection(
        ConnectionWatch(ConnectionLimits()), config=config, server_state=state, app_state={}
    )
    connection.connection_made(FakeTransport())
    gc.disable()
    try:
        for _ in range(2):  # the connection keeps the last one
            connection.data_received(REQUEST)
            async with asyncio.timeout(60):
                while state.tasks:
                    await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert requests[0]() is None
    finally:
        gc.enable()

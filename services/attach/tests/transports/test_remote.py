"""Servers at a URL: every transport, spoiled answers, lost sessions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from searchbus_attach.declare.servers import Server, parse_server
from searchbus_attach.transports import budget
from searchbus_attach.transports import notes as limits
from searchbus_attach.transports import remote as module
from searchbus_attach.transports.direct import DirectRequests
from searchbus_attach.transports.http import transport
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.upstream.connection import ConnectionContext, why
from searchbus_attach.upstream.upstream import Upstream
from searchbus_contracts import ErrorCode, Fault
from searchbus_testing import serve, until

from ..conftest import call_tool
from ..remote_server import Remote, passage, remote_server
from ..upstream.test_upstream import Caller, text
from .http.scripted import certified, scripted


@pytest.fixture
async def remote() -> AsyncIterator[Remote]:
    async with remote_server() as found:
        yield found


@pytest.fixture
async def start() -> AsyncIterator:
    started: list[Upstream] = []

    def new(url: str, **keys) -> Upstream:
        server: Server = parse_server("far", {"url": url, **keys})
        upstream = Upstream(server, ConnectionContext(), on_list=lambda _: None)
        upstream.start()
        started.append(upstream)
        return upstream

    yield new
    for upstream in started:
        await upstream.stop()


async def test_streamable_http(remote, start):
    """With the declared headers, and no other credentials."""
    upstream = start(remote.url, headers={"Authorization": "Bearer of the server"})
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"
    assert (upstream.server_info, upstream.state) == ("far 2.0", "up")
    sent = {headers.get("authorization") for headers in remote.headers}
    assert sent == {"Bearer of the server"}
    assert all(headers["accept-encoding"] == "identity" for headers in remote.headers)


async def test_the_older_transport(remote, start):
    """SSE of revision 2024-11-05."""
    upstream = start(remote.sse_url, transport="sse")
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"


@asynccontextmanager
async def older_server(*events: bytes, endpoint: str = "/messages"):
    """The address of a server of the older transport, which sends these after the first message."""
    posted = asyncio.Event()

    async def stream(_):
        async def body():
            yield f"event: endpoint\ndata: {endpoint}\n\n".encode()
            await posted.wait()
            for event in events:
                yield b"event: message\ndata: " + event + b"\n\n"
            await asyncio.Event().wait()

        return StreamingResponse(body(), media_type="text/event-stream")

    async def take(_):
        posted.set()
        return Response(status_code=202)

    routes = [Route("/sse", stream), Route("/messages", take, methods=["POST"])]
    async with serve(Starlette(routes=routes)) as base:
        yield parse_server("far", {"url": f"{base}/sse", "transport": "sse"})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b'{"a":[' + b"{}," * 300_000 + b"{}]}", "more than 200,000 values"),
        (b'{"a":' + b"9" * 30 + b"}", "an integer of more than 20 digits"),
    ],
)
async def test_messages_of_the_older_transport_are_looked_through_first(answer, problem):
    """As those of all others: pydantic takes seconds for one with millions of values."""
    notes, sent = HttpNotes(), b'{"jsonrpc":"2.0","id":1,"result":' + answer + b"}"
    async with (
        older_server(b"garbage", sent) as far,
        module.remote_transport(far, notes, DirectRequests()) as (read, write),
    ):
        await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
        found = (await read.receive()).message
    assert problem in found.error.message
    assert notes.budget.dropped >= 1


async def test_the_older_transport_sends_messages_to_its_own_host_only():
    """The first event says where; it could be where a token must not go."""
    async with older_server(endpoint="http://127.0.0.1:9/messages") as far:
        with pytest.raises(ExceptionGroup) as caught:
            async with module.remote_transport(far, HttpNotes(), DirectRequests()):
                pytest.fail("it must not begin")
    assert why(caught.value, HttpNotes()) == "it names an endpoint at another host"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_progress_and_cancellation(remote, start, transport):
    """While the call runs."""
    url = remote.url if transport == "http" else remote.sse_url
    upstream = start(url, transport=transport)
    caller = Caller()
    running = asyncio.create_task(call_tool(upstream, caller, "slow", {}))
    await until(lambda: len(caller.events) > 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert caller.events[0][:3] == ("progress", 1.0, 600.0)
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"


def leave_to_sdk(upstream: Upstream) -> None:
    """As with a proxy, a cookie or a redirect."""
    upstream._connection.session._direct.send = None


@pytest.mark.parametrize("direct", [True, False])
async def test_an_expired_session_is_replaced_inside_the_call(remote, start, direct):
    """Once, and only the call's own time is used; the tool ran once."""
    remote.legacy = True
    upstream = start(remote.url)
    await until(lambda: upstream.state == "up")
    for number in range(3):
        if not direct:
            leave_to_sdk(upstream)
        remote.forget = True
        assert text(await call_tool(upstream, Caller(), "echo", {"text": str(number)})) == str(
            number
        )
        assert not remote.forget
    assert (remote.called, upstream.restarts) == (3, 3)
    assert upstream.protocol < "2026"


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (-32000, "Unknown debugging session 42"),
        (-32001, "Protocol error (Target.attach): Session with given id not found."),
        (-32600, "Session terminated"),
        (-32000, "Connection closed"),
    ],
)
async def test_an_error_of_a_tool_about_its_own_sessions_ends_none(
    remote, start, direct, code, message
):
    """The call was done: it is not sent again, and those of others go on."""
    remote.legacy = True
    upstream = start(remote.url)
    await until(lambda: upstream.state == "up")
    if not direct:
        leave_to_sdk(upstream)
    remote.headers.clear()
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}}
    remote.spoil = (200, "application/json", json.dumps(error).encode())
    with pytest.raises(Fault, match=re.escape(message)) as fault:
        await call_tool(upstream, Caller(), "book", {})
    assert fault.value.code == ErrorCode.UPSTREAM_FAILED
    posted = sum("content-length" in headers for headers in remote.headers)
    assert (posted, upstream.restarts) == (1, 0)


async def test_work_whose_session_is_refused_again_is_not_repeated_further(remote, start):
    """A server that did the work and answers 404: neither this service nor the bus goes on."""
    remote.legacy = True
    upstream = start(remote.url)
    await until(lambda: upstream.state == "up")
    remote.disowns = True
    with pytest.raises(Fault, match="may have been done") as caught:
        await call_tool(upstream, Caller(), "book", {})
    assert (caught.value.failure.retryable, remote.called) == (False, 2)


async def test_a_proxy_of_the_environment_is_used(start, monkeypatch):
    """By httpx2's own transport."""
    async with scripted() as proxy:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/mcp"))
        start("http://far.invalid/mcp")
        await until(lambda: proxy.requests)
    assert proxy.requests[0].startswith(b"POST http://far.invalid/mcp HTTP/1.1\r\n")


async def test_an_address_where_nothing_listens(start):
    """Says so at once, and the call too."""
    upstream = start("http://127.0.0.1:9/mcp")
    await until(lambda: upstream.state == "down")
    assert upstream.problem == (
        "it cannot be reached: 127.0.0.1:9 refuses the connection; "
        "start the server, or correct its 'url'"
    )
    with pytest.raises(
        Fault, match=r"far cannot be used now: it cannot be reached\. Try again later\.$"
    ):
        await call_tool(upstream, Caller(remaining_s=0.5), "echo", {})


async def test_a_certificate_that_is_not_accepted(start, tmp_path):
    """Says so, and for which place; the path and the query of the URL are not shown."""
    tls, _ = certified(tmp_path)
    async with scripted(tls) as server:
        upstream = start(f"{server.url}?key=secret")
        await until(lambda: upstream.state == "down")
    place = server.url.removeprefix("https://").removesuffix("/mcp")
    assert f"the TLS certificate of {place} is not accepted (self" in upstream.problem
    assert "secret" not in upstream.problem


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ((401, "text/plain", b"who are you"), "refuses the credentials"),
        ((200, "text/html", b"<html>"), "refuses"),
        ((200, "application/json", b"{"), "refuses"),
        ((404, "text/html", b"<html>"), "it answers HTTP 404 (Not Found); check its 'url'"),
        ((405, "text/plain", b""), "it answers HTTP 405 (Method Not Allowed); check its 'url'"),
        ((500, "application/json", b"{}"), "it answers HTTP 500 (Internal Server Error)"),
    ],
)
async def test_answers_that_are_not_mcp(remote, start, spoil, problem):
    """Say what is wrong without their text."""
    remote.spoil = spoil
    upstream = start(remote.url)
    await until(lambda: problem in upstream.problem)


async def test_a_server_that_comes_back_is_used_again(remote, start):
    """Without a restart of anything."""
    remote.spoil = (503, "text/plain", b"")
    upstream = start(remote.url)
    await until(lambda: upstream.state == "down")
    remote.spoil = None
    await until(lambda: upstream.state == "up")
    assert text(await call_tool(upstream, Caller(), "echo", {"text": "x"})) == "x"


async def test_a_call_that_was_received_is_not_repeated_when_another_cannot_be_sent(
    remote, start, monkeypatch
):
    """A server that is replaced no longer listens, while it ends the calls that it has."""
    monkeypatch.setattr(transport, "_KEPT_S", 0.0)  # each request needs a connection of its own
    async with passage(remote.url) as (url, close):
        upstream = start(url)
        await until(lambda: upstream.state == "up")
        caller = Caller()
        received = asyncio.create_task(call_tool(upstream, caller, "slow", {}))
        await until(lambda: caller.events)
        close()
        with pytest.raises(Fault, match="may have been done"):
            await call_tool(upstream, Caller(), "slow", {})
        with pytest.raises(Fault, match="may have been done"):
            await received


@pytest.mark.slow
async def test_a_call_that_nothing_received_waits_for_the_server(remote, start, monkeypatch):
    """It is sent once the server is there again, also where its tool may not be repeated."""
    monkeypatch.setattr(transport, "_KEPT_S", 0.0)
    async with passage(remote.url) as (url, close):
        upstream = start(url)
        await until(lambda: upstream.state == "up")
        close()
        with pytest.raises(Fault, match="cannot be reached"):
            await call_tool(upstream, Caller(), "slow", {})


async def test_a_body_that_is_too_large_ends_the_connection(remote, start, monkeypatch):
    """Before it is in memory."""
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 1000)
    remote.spoil = (200, "application/json", b" " * 2**21)
    upstream = start(remote.url)
    await until(lambda: upstream.problem)
    assert upstream.state != "up"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_messages_beyond_the_budget_are_dropped(remote, start, monkeypatch, transport):
    """Of both transports; the call goes on."""
    monkeypatch.setattr(budget, "_EVENTS", 5)
    monkeypatch.setattr(budget, "_EVENTS_PER_S", 0.001)
    upstream = start(remote.sse_url if transport == "sse" else remote.url, transport=transport)
    caller = Caller()
    running = asyncio.create_task(call_tool(upstream, caller, "slow", {}))
    await until(lambda: upstream.budget.dropped > 3)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert 0 < len(caller.events) <= 5
    assert upstream.restarts == 0


async def test_refused_credentials_are_said_with_what_to_do():
    """By what is declared."""
    notes = HttpNotes()
    assert notes.advice == ""
    await notes.look_at(httpx2.Response(403, stream=httpx2.ByteStream(b"")))
    assert "(HTTP 403); set its 'headers' or 'auth'" in notes.advice
    notes.auth = SimpleNamespace(problem="")
    assert "see its 'auth.scopes'" in notes.advice
    notes.auth.problem = "there is no token"
    assert notes.advice == "there is no token"


async def test_a_call_at_a_broken_server_is_a_typed_failure(remote, start):
    """HTTP 500 in the middle."""
    upstream = start(remote.url)
    await until(lambda: upstream.state == "up")
    remote.spoil = (500, "text/plain", b"stack trace")
    with pytest.raises(Fault) as fault:
        await call_tool(upstream, Caller(), "echo", {"text": "x"})
    assert fault.value.code == ErrorCode.UPSTREAM_FAILED
    assert "stack trace" not in fault.value.failure.message

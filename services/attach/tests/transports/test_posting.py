"""Direct requests to a URL: what answers they take, and what ends them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx2
import msgspec
import pytest
from mcp import MCPError
from mcp_types import ErrorData, JSONRPCError

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.errors import AuthError
from searchbus_attach.transports import posting
from searchbus_attach.transports.direct import FIRST_ID, DirectRequests, NotDirectError
from searchbus_attach.transports.http.client import BearerAuth
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.transports.remote import remote_transport
from searchbus_testing import until

from .http.scripted import Scripted, closes, scripted

RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
OTHER = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
PROGRESS = (
    b'{"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":%d,"progress":1,"total":2,"message":"half"}}' % FIRST_ID
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = (b"Content-Type: application/json", *headers, b"Content-Length: %d" % len(body))
    return b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, b"\r\n".join(lines), body)


def event(data: bytes, *more: bytes) -> bytes:
    text = b"\n".join((*more, b"data: " + data, b"\n"))
    return b"%x\r\n%b\r\n" % (len(text), text)


@asynccontextmanager
async def opened(**keys: Any) -> AsyncIterator[SimpleNamespace]:
    """A server, and the direct requests of a connection to it."""
    direct = DirectRequests()
    async with scripted() as server:
        far = parse_server("far", {"url": server.url, **keys})
        async with remote_transport(far, HttpNotes(), direct) as (read, _):
            yield SimpleNamespace(server=server, direct=direct, read=read, abandoned=[], told=[])


async def call(world: SimpleNamespace, headers: dict[str, str] | None = None) -> dict[str, Any]:
    async def on_progress(*fields: Any) -> None:
        world.told.append(fields)

    return await world.direct.request(
        "tools/call", {"name": "x"}, headers=headers or {}, on_progress=on_progress,
        on_abandon=world.abandoned.append,
    )  # fmt: skip


def sent(server: Scripted, at: int = -1) -> tuple[bytes, dict[str, Any]]:
    head, _, body = server.requests[at].partition(b"\r\n\r\n")
    return head.lower(), msgspec.json.decode(body)


async def test_one_request_is_one_message_on_one_connection():
    """With the headers of its server, of the session and its own."""
    async with opened(headers={"X-Key": "1"}) as world:
        world.server.answers = [answer(RESULT)]
        for _ in range(3):
            assert await call(world, {"mcp-name": "x"}) == {"content": []}
        assert await call(world, {"mcp-name": "y"}) == {"content": []}
        head, message = sent(world.server, 0)
        assert message == {
            "jsonrpc": "2.0", "id": FIRST_ID, "method": "tools/call",
            "params": {"name": "x", "_meta": {"progressToken": FIRST_ID}},
        }  # fmt: skip
        for line in (b"x-key: 1", b"mcp-name: x", b"accept: application/json, text/event-stream"):
            assert head.count(b"\r\n" + line + b"\r\n") == 1
        assert head.count(b"content-length") == 1
        assert b"mcp-name: y" in sent(world.server)[0]
        assert [sent(world.server, at)[1]["id"] - FIRST_ID for at in range(4)] == [0, 1, 2, 3]
        assert (world.server.opened, world.abandoned) == (1, [])


async def test_user_and_password_of_the_url_are_sent():
    """Their header takes the place of a declared one, as in the SDK's requests."""
    async with scripted() as server:
        server.answers = [answer(RESULT)]
        url = server.url.replace("http://", "http://me:p%40ss@")
        far = parse_server("far", {"url": url, "headers": {"Authorization": "other"}})
        direct = DirectRequests()
        async with remote_transport(far, HttpNotes(), direct):
            await call(SimpleNamespace(direct=direct, abandoned=[], told=[]))
        head, _ = sent(server)
        assert head.count(b"authorization: ") == 1
        assert b"authorization: basic " + b64encode(b"me:p@ss").lower() in head


async def test_what_comes_before_the_answer_is_passed_on():
    """Progress to its call, the rest to the session; the connection is kept."""
    async with opened() as world:
        answered = asyncio.Event()

        async def streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}}}")
            writer.write(STREAM + event(PROGRESS) + event(OTHER) + event(RESULT, b"id: 1"))
            await answered.wait()
            writer.write(END)

        world.server.answers = [streams, answer(RESULT)]
        assert await call(world) == {"content": []}
        assert world.told == [(1.0, 2.0, "half")]
        assert (await world.read.receive()).message.method == "notifications/message"
        answered.set()
        await until(lambda: world.direct.send.__self__.transport._kept)
        assert await call(world) == {"content": []}
        assert world.server.opened == 1


async def test_a_stream_that_does_not_end_after_the_answer_is_closed(monkeypatch):
    """Its connection would be in use for ever."""
    monkeypatch.setattr("searchbus_attach.transports.http.transport._END_S", 0.05)
    async with opened() as world:
        world.server.answers = [STREAM + event(RESULT)]
        assert await call(world) == {"content": []}
        await world.server.until_closed(1)


async def test_a_request_without_a_place_gets_that_of_a_stream_that_was_answered(monkeypatch):
    """Of a server that leaves all of them open; each would keep its place for a while."""
    monkeypatch.setattr("searchbus_attach.transports.http.transport._END_S", 600)
    async with opened(max_in_flight=1) as world:
        places = world.direct.send.__self__.transport._slots._value
        world.server.answers = [STREAM + event(RESULT)]
        for _ in range(places + 2):
            assert await call(world) == {"content": []}
        await world.server.until_closed(2)


async def test_a_stream_that_broke_off_behind_the_answer_takes_no_place():
    """Nothing says its end later, when the answer is read after it."""
    async with opened(max_in_flight=1) as world:
        transport = world.direct.send.__self__.transport

        async def breaks_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}}}")
            writer.write(STREAM + event(PROGRESS) + event(RESULT))
            writer.close()

        async def on_progress(*_: Any) -> None:
            (connection,) = transport._busy
            await until(lambda: connection._error)

        world.server.answers = [breaks_off]
        free = transport._slots._value
        assert await world.direct.request(
            "tools/call", {}, headers={}, on_progress=on_progress, on_abandon=print
        ) == {"content": []}
        assert transport._slots._value == free
        assert not transport._ending


async def test_a_stream_that_ends_before_the_answer_is_resumed():
    """After the pause that the server wants, from its last event on."""
    async with opened() as world:
        world.server.answers = [
            STREAM + event(b"", b"id: 5", b"retry: 0") + END,
            answer(b"", status=b"503 Unavailable"),
            STREAM + event(RESULT, b"id: 6"),
        ]
        assert await call(world) == {"content": []}
        first, second, third = world.server.requests
        assert first.startswith(b"POST ")
        assert second.startswith(b"GET ")
        assert third.startswith(b"GET ")
        assert b"last-event-id: 5\r\n" in third.lower()


async def test_a_stream_that_cannot_be_resumed_is_a_lost_connection():
    """With the SDK's words, by which it is known."""
    async with opened() as world:
        world.server.answers = [STREAM + event(OTHER) + END]
        with pytest.raises(MCPError, match="SSE stream ended without a response"):
            await call(world)
        world.server.answers = [STREAM + event(OTHER, b"id: 1", b"retry: 0") + END, answer(b"{}")]
        with pytest.raises(MCPError, match="SSE stream ended and reconnection attempts"):
            await call(world)
        assert len(world.server.requests) == 1 + 1 + posting._ATTEMPTS


async def test_an_event_that_is_too_large_is_a_lost_connection(monkeypatch):
    """It is not kept in memory."""
    monkeypatch.setattr("searchbus_attach.transports.remote.MAX_ANSWER_BYTES", 1000)
    async with opened() as world:
        world.server.answers = [STREAM + event(b"x" * 2000) + END]
        with pytest.raises(MCPError, match="SSE stream failed"):
            await call(world)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer(b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}'), "^no$"),
        (
            answer(
                b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad"}}',
                status=b"400 Bad Request",
            ),
            "^bad$",
        ),
        (answer(b"{", status=b"400 Bad Request"), "Server returned an error response: HTTP 400"),
        (answer(b"", status=b"404 Not Found"), "^Not Found$"),
        (answer(b"", status=b"202 Accepted"), "202 Accepted"),
        (answer(b"{"), "^Not read: "),
        (answer(OTHER), "it is not an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok", "text/html"),
    ],
)
async def test_a_refusal_is_that_of_the_sdk(given, words):
    """The session goes on."""
    async with opened() as world:
        world.server.answers = [given]
        for _ in range(2):
            with pytest.raises(MCPError, match=words):
                await call(world)
        assert world.abandoned == []


@pytest.mark.parametrize(
    ("status", "code", "message", "refused"),
    [
        (404, -32600, "Session terminated", True),
        (404, -32001, "Session not found", True),
        (400, -32000, "Bad Request: No valid session ID provided", True),
        (200, -32001, "Session with given id not found.", False),
        (500, -32001, "Session not found", False),
        (400, -32001, "Request timed out", False),
        (400, -32602, "no session of parliament", False),
    ],
)
def test_a_session_is_refused_by_the_status(status, code, message, refused):
    """Words alone may be those of a tool; and without a session there is none to refuse."""
    error = ErrorData(code=code, message=message)
    sent = JSONRPCError(jsonrpc="2.0", id=1, error=error)
    found = posting.by_status(sent, status, {"mcp-session-id": "1"})
    assert (found.error.code, found.error.message) == (code, message)
    assert (found.error.data is posting.REFUSED_SESSION) is refused
    assert posting.by_status(sent, status, {}).error.data is None


async def test_a_redirect_is_followed_by_the_sdk():
    """The server has done nothing; the next request goes there at once."""
    async with opened() as world:
        world.server.answers = [
            answer(b"", b"Location: /mcp/", status=b"307 Moved"),
            answer(RESULT),
        ]
        for _ in range(2):
            with pytest.raises(NotDirectError):
                await call(world)
        assert len(world.server.requests) == 1


async def test_a_server_with_cookies_is_left_to_the_sdk():
    """Which sends them back."""
    async with opened() as world:
        world.server.answers = [answer(RESULT, b"Set-Cookie: a=1")]
        assert await call(world) == {"content": []}
        with pytest.raises(NotDirectError):
            await call(world)


@asynccontextmanager
async def signed(*tokens: str | AuthError) -> AsyncIterator[SimpleNamespace]:
    """A server that wants a token, of which there are these, one after the other."""
    notes, direct, source = HttpNotes(), DirectRequests(), AsyncMock(side_effect=tokens)
    async with scripted() as server:
        notes.auth = BearerAuth(server.url, source, lambda token: ("authorization", token))
        far = parse_server("far", {"url": server.url})
        async with remote_transport(far, notes, direct):
            yield SimpleNamespace(
                server=server, direct=direct, auth=notes.auth, told=[], abandoned=[]
            )


async def test_a_token_that_is_refused_is_replaced():
    """The request is sent once more."""
    async with signed("t1", "t2") as world:
        world.server.answers = [answer(b"", status=b"401 Unauthorized"), answer(RESULT)]
        assert await call(world) == {"content": []}
        for at, token in enumerate((b"t1", b"t2")):
            head, message = sent(world.server, at)
            assert head.count(b"authorization: " + token) == 1
            assert message["id"] == FIRST_ID


async def test_a_token_that_is_refused_again_is_the_answer():
    """No request for ever; the reason is kept."""
    async with signed("t1", "t2") as world:
        world.server.answers = [answer(b"", status=b"401 Unauthorized")]
        with pytest.raises(MCPError, match="Server returned an error response"):
            await call(world)
        assert len(world.server.requests) == 2
        assert "just issued" in world.auth.problem


async def test_without_a_token_nothing_is_sent():
    """Also where the first one was refused; the session goes on."""
    gone = AuthError("no token today")
    async with signed(gone, "t1", gone, "t2") as world:
        world.server.answers = [answer(b"", status=b"401 Unauthorized"), answer(RESULT)]
        for requests in (0, 1):
            with pytest.raises(MCPError, match="Server returned an error response"):
                await call(world)
            assert len(world.server.requests) == requests
            assert world.auth.problem == "no token today"
        assert await call(world) == {"content": []}


async def test_a_lost_connection_ends_the_session_and_its_requests():
    """As in the SDK; the reason is the transport's."""
    with pytest.raises(ExceptionGroup) as caught:
        async with opened() as world:
            world.server.answers = [closes]
            with pytest.raises(MCPError, match=r"^Connection closed$"):
                await call(world)
            await asyncio.Event().wait()
    assert caught.group_contains(httpx2.RemoteProtocolError)


async def held(world: SimpleNamespace) -> asyncio.Task[Any]:
    """A call that the server has received and does not answer."""
    received = asyncio.Event()

    async def holds(*_: Any) -> None:
        received.set()
        await asyncio.Event().wait()

    world.server.answers = [holds]
    calling = asyncio.create_task(call(world))
    await received.wait()
    return calling


async def test_the_end_of_a_session_ends_its_requests():
    """Nobody waits for their answers any more."""
    async with opened() as world:
        calling = await held(world)
    with pytest.raises(MCPError, match=r"^Connection closed$"):
        await calling


async def test_a_cancelled_request_is_given_up():
    """Its id is told to the server."""
    async with opened() as world:
        calling = await held(world)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        assert world.abandoned == [FIRST_ID]


@pytest.mark.parametrize("progress", [b"1" + b"0" * 400, b"-1e999"])
async def test_progress_that_is_no_number_of_the_bus_is_left_out(caplog, progress):
    """A line of the log for each would be a flood."""
    async with opened() as world:
        notice = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}'
        params = b'{"progressToken":%d,"progress":%b}' % (FIRST_ID, progress)
        world.server.answers = [STREAM + event(notice % params) + event(RESULT) + END]
        assert await call(world) == {"content": []}
        assert world.told == []
    assert caplog.text == ""

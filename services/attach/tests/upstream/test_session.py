"""The results of a session are what the server sent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.errors import ServerError
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.upstream import session as module
from searchbus_attach.upstream.connection import ConnectionContext, open_connection

from ..conftest import plain
from ..transports.http.scripted import scripted

SCHEMA = {"type": "object"}
BAD = {"name": "bad"}
GOOD = {"name": "good", "inputSchema": SCHEMA}


async def opened(how: dict, use: Callable) -> object:
    context = ConnectionContext()
    try:
        async with open_connection(plain(how), context, HttpNotes()) as connection:
            await connection.session.open_session()
            return await use(connection.session)
    finally:
        context.reaper.close()


async def test_no_request_overtakes_the_end_of_the_handshake():
    """Many servers refuse it. The command of the other tests does, too."""
    methods = []
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        },
        "tools/list": {"tools": [GOOD]},
    }
    context = ConnectionContext()
    async with scripted() as server, AsyncExitStack() as stack:

        async def answers(reader, writer):
            if server.requests[-1].startswith(b"GET "):
                writer.write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n")
                return
            length = re.search(rb"content-length: (\d+)", server.requests[-1].lower())
            message = json.loads(await reader.readexactly(int(length[1])))
            methods.append(message["method"])
            if "id" not in message:
                for _ in range(50):  # so many times, a request could come meanwhile
                    await asyncio.sleep(0.001)
                methods.append("handled")
            found = results.get(message["method"])
            body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": found}).encode()
            status = b"200 OK" if found else b"202 Accepted" if "id" not in message else b"400 Bad"
            writer.write(
                b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (status, len(body), body)
            )

        server.answers = [answers]
        stack.push_async_callback(context.aclose)
        far = parse_server("far", {"url": server.url})
        connection = await stack.enter_async_context(open_connection(far, context, HttpNotes()))
        await connection.session.open_session()
        assert await connection.session.list_all() == [GOOD]
    assert methods[-3:] == ["notifications/initialized", "handled", "tools/list"]


async def test_a_malformed_tool_does_not_cost_the_list():
    """The SDK's own list_tools fails as a whole."""

    async def use(session):
        return await session.list_all()

    assert await opened({"tools": [BAD, GOOD, 3]}, use) == [BAD, GOOD, 3]


async def test_an_answer_that_misses_its_schema_is_no_error():
    """The SDK's own call_tool raises."""
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}}

    async def use(session):
        await session.list_all()
        return await session.ask("tools/call", {"name": "wrong_output", "arguments": {}})

    found = await opened({"tools": [{**GOOD, "name": "wrong_output", "outputSchema": schema}]}, use)
    assert found["structuredContent"] == {"count": "three"}


async def test_a_refused_ping_is_an_answer():
    """Of a server that does not know it."""

    async def use(session):
        with pytest.raises(MCPError, match="no method ping"):
            await session.ask("ping", {})

    await opened({}, use)


async def test_a_handshake_that_is_too_large_is_an_error(monkeypatch):
    """Before pydantic parses it on the loop, which other servers need too."""
    monkeypatch.setattr(module, "MAX_HANDSHAKE_VALUES", 3)

    async def use(session):
        raise AssertionError

    with pytest.raises(ExceptionGroup) as error:
        await opened({}, use)
    assert error.group_contains(ServerError, match="initialize has more than 3 values")


async def test_pages_without_end_are_an_error():
    """And not a loop."""

    async def use(session):
        return await session.list_all()

    with pytest.raises(ExceptionGroup) as error:
        await opened({"tools": [GOOD], "endless": True}, use)
    assert error.group_contains(ServerError, match="pages")


async def test_a_list_that_is_too_large_is_an_error(monkeypatch):
    """Before the memory is gone."""
    monkeypatch.setattr(module, "MAX_LIST_BYTES", 4096)

    async def use(session):
        return await session.list_all()

    tools = [{**GOOD, "name": f"t{n}", "description": "x" * 1000} for n in range(8)]
    with pytest.raises(ExceptionGroup) as error:
        await opened({"tools": tools, "page_size": 1}, use)
    assert error.group_contains(ServerError, match="takes more than")


async def test_values_of_a_list_count_by_what_they_take(monkeypatch):
    """An empty list is two bytes of JSON, and sixty in memory."""
    monkeypatch.setattr(module, "MAX_LIST_BYTES", 16 * 1024)

    async def use(session):
        return await session.list_all()

    tools = [{**GOOD, "name": f"t{n}", "x": [[]] * 100} for n in range(8)]
    with pytest.raises(ExceptionGroup) as error:
        await opened({"tools": tools, "page_size": 1}, use)
    assert error.group_contains(ServerError, match="takes more than")


def test_the_sdk_has_what_is_used_of_it():
    """Some of it is not public; the SDK is pinned to one minor version."""
    from mcp import ClientSession

    for name in ("_stamp", "_dispatcher"):
        assert name in ClientSession.__init__.__code__.co_names
    assert callable(ClientSession._absorb_tool_listing)
    assert MCPServer is not None

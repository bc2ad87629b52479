"""The results of a session are what the server sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mcp import MCPError
from mcp.server.mcpserver import MCPServer

from searchbus_attach.errors import ServerError
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.upstream import session as module
from searchbus_attach.upstream.connection import ConnectionContext, open_connection

from ..conftest import plain

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
            await session.ping()

    await opened({}, use)


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
    assert error.group_contains(ServerError, match="larger than")


def test_the_sdk_has_what_is_used_of_it():
    """Some of it is not public; the SDK is pinned to one minor version."""
    from mcp import ClientSession

    for name in ("_stamp", "_dispatcher"):
        assert name in ClientSession.__init__.__code__.co_names
    assert callable(ClientSession._absorb_tool_listing)
    assert MCPServer is not None

"""The messages of a client whose edge opens later."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import mcp_types as types
import pytest
from mcp.server import Server
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage

from searchbus_bus import end_task
from searchbus_edge.stdio import messages as module
from searchbus_edge.stdio.messages import ClientMessages

ENVELOPE = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def server(*tools: str) -> Server:
    """An MCP server whose list has these tools."""
    listed = [types.Tool(name=name, input_schema={"type": "object"}) for name in tools]

    async def list_tools(ctx, params):
        return types.ListToolsResult(tools=listed)

    return Server("test", on_list_tools=list_tools)


class Silent(Server):
    """An MCP server that answers nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked = asyncio.Event()

    async def run(self, incoming, *_):
        async for _ in incoming:
            self.asked.set()


class Line:
    """A client's side of the streams."""

    def __init__(self) -> None:
        self._to, incoming = create_context_streams(100)
        outgoing, self._sent = create_context_streams(100)
        self.messages = ClientMessages(incoming, outgoing)

    async def send(self, method, identity=None, **params):
        kind = types.JSONRPCNotification if identity is None else types.JSONRPCRequest
        fields = {} if identity is None else {"id": identity}
        message = kind(jsonrpc="2.0", method=method, params=params, **fields)
        await self._to.send(SessionMessage(message))

    async def receive(self):
        """The id or the method of the next message, and its tools."""
        message = (await self._sent.receive()).message
        tools = [tool["name"] for tool in getattr(message, "result", {}).get("tools", ())]
        return getattr(message, "id", None) or message.method, tools

    async def greet(self):
        await self.send("initialize", 1, **INITIALIZE)
        assert await self.receive() == (1, [])
        await self.send("notifications/initialized")


@pytest.fixture
async def line():
    line = Line()
    reading = asyncio.create_task(line.messages.read())
    yield line
    await end_task(reading)


@asynccontextmanager
async def served(line, *tools):
    serving = asyncio.create_task(line.messages.serve(server(*tools)))
    yield
    await end_task(serving)


async def test_handshake_is_answered_once_and_requests_wait_in_order(line):
    """By the first server, whose lists nobody sees; the second one gets the handshake too."""
    async with line.messages.greeted_by(server("first")):
        await line.greet()
        for identity in (2, 3):
            await line.send("tools/list", identity)
        await line.send("ping", 4)
        assert await line.receive() == (4, [])
    async with served(line, "second"):
        assert [await line.receive() for _ in range(2)] == [(2, ["second"]), (3, ["second"])]
        await line.send("tools/list", 5)
        assert await line.receive() == (5, ["second"])


async def test_handshake_that_came_before_the_first_server_is_answered(line):
    await line.send("initialize", 1, **INITIALIZE)
    await asyncio.sleep(0.01)
    async with line.messages.greeted_by(server("first")):
        assert await line.receive() == (1, [])


async def test_refused_handshake_decides_nothing(line):
    """A client whose first question is answered late tries the earlier handshake too; the refusal
    says that the connection is of the later revision, and it goes on with that."""
    async with line.messages.greeted_by(server("first")):
        await line.send("server/discover", 1, **ENVELOPE)
        await line.send("initialize", 2, **INITIALIZE)
        assert {(await line.receive())[0] for _ in range(2)} == {1, 2}
        await line.send("tools/list", 3, **ENVELOPE)
    async with served(line, "second"):
        assert await line.receive() == (3, ["second"])


@pytest.mark.parametrize(
    ("method", "params"), [("server/discover", ENVELOPE), ("initialize", INITIALIZE)]
)
async def test_what_the_first_server_left_unanswered_is_asked_of_the_second(line, method, params):
    """It may end between a question and its answer."""
    silent = Silent("test")
    async with line.messages.greeted_by(silent):
        await line.send(method, 1, **params)
        await silent.asked.wait()
    async with served(line, "second"):
        assert await line.receive() == (1, [])


async def test_list_that_waited_long_is_answered_and_reported_as_changed(line, monkeypatch):
    """A host gives up after a minute; it is told once there is more."""
    monkeypatch.setattr(module, "LISTS_WAIT_S", 0.0)
    async with line.messages.greeted_by(server("first")):
        await line.greet()
        await line.send("tools/list", 2)
        assert await line.receive() == (2, ["first"])
    async with served(line, "second"):
        changed = {(await line.receive())[0] for _ in range(3)}
        assert changed == {
            f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
        }
        await line.send("tools/list", 3)
        assert await line.receive() == (3, ["second"])


async def test_changes_of_the_lists_are_told(line):
    """After the handshake, at any time."""
    async with served(line, "one"):
        await line.greet()
        await line.send("ping", 2)
        assert await line.receive() == (2, [])
        line.messages.lists_changed()
        assert (await line.receive())[0] == "notifications/tools/list_changed"


async def test_end_waits_for_the_answers_of_what_was_read(line):
    """Not of what the client cancelled, nor of a subscription, which has none."""
    async with line.messages.greeted_by(server("a")):
        await line.greet()
        await line.messages.all_answered()
        await line.send("tools/list", 2)
        await line.send("subscriptions/listen", 3)
        await line.send("tools/list", 4)
        await line.send("notifications/cancelled", requestId=[2])
        await line.send("notifications/cancelled", requestId=4)
        await line.send("ping", 5)
        assert await line.receive() == (5, [])
        ending = asyncio.create_task(line.messages.all_answered())
        await asyncio.sleep(0)
        assert not ending.done()
    async with served(line, "a"):
        assert await line.receive() == (2, ["a"])
        await ending

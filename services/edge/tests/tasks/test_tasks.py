"""Calls that become tasks, through the SDK's own client, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import Mock

import httpx
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim, advertise
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from searchbus_bus import Call, MemoryBroker, Toolset, Worker, tool
from searchbus_contracts import (
    Actor,
    InputRequired,
    TextContent,
    ToolAnnotations,
    ToolCall,
    ToolDescriptor,
    ToolReply,
)
from searchbus_edge.app import build_app
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tasks import running
from searchbus_edge.tasks.store import EXTENSION, MAX_PER_CALLER
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import until

ASKS = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}}


class Given(types.Result):
    """A CreateTaskResult."""

    result_type: Literal["task"]
    task_id: str
    status: str
    ttl_ms: int
    poll_interval_ms: int


class TaskRequest(types.Request[dict[str, Any], str]):
    """A request with the header that the extension asks for."""

    name_param = "taskId"
    method: str
    params: dict[str, Any]


class Whatever(types.Result, extra="allow"):
    """Whatever a method of tasks returns."""


class Polling(ClientExtension):
    """What a host does: it polls until the task has ended."""

    identifier = EXTENSION

    def claims(self) -> list[ResultClaim[Given]]:
        return [ResultClaim(result_type="task", model=Given, resolve=self.resolve)]

    async def resolve(self, given: Given, context: ClaimContext) -> types.CallToolResult:
        while True:
            found = await ask(context.session, "tasks/get", given.task_id)
            if found["status"] not in ("working", "input_required"):
                return types.CallToolResult.model_validate(found["result"])
            await asyncio.sleep(0.01)


async def ask(session: Any, method: str, task_id: str, **params: Any) -> dict[str, Any]:
    request = TaskRequest(method=method, params={"taskId": task_id, **params})
    found = await session.send_request(request, Whatever)
    return found.model_dump(by_alias=True)


class Nothing(Struct):
    pass


@dataclass
class Work:
    """What the worker was asked for, and when it may end."""

    calls: list[ToolCall] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0


class Long(Toolset, name="long"):
    """Tools that take as long as the test wants."""

    def __init__(self, work: Work) -> None:
        self.work = work

    @tool(title="dig", task_after_ms=0, annotations=ToolAnnotations(read_only_hint=True))
    async def dig(self, call: Call, _: Nothing) -> str:
        """Waits."""
        return await self._wait(call)

    @tool(title="build", task_after_ms=0)
    async def build(self, call: Call, _: Nothing) -> str:
        """Waits, and may not be repeated."""
        return await self._wait(call)

    @tool(title="quick", task_after_ms=60_000)
    async def quick(self, call: Call, _: Nothing) -> str:
        """Replies at once."""
        return "quick"

    @tool(title="large", task_after_ms=0)
    async def large(self, call: Call, _: Nothing) -> str:
        """Replies with too much."""
        await self.work.go.wait()
        return "x" * 500_000

    @tool(title="late", task_after_ms=0, timeout_ms=300)
    async def late(self, call: Call, _: Nothing) -> str:
        """Takes longer than it may."""
        await asyncio.sleep(60)
        return ""

    async def _wait(self, call: Call) -> str:
        self.work.calls.append(ToolCall(tool="wait"))
        await call.progress(1, 2, "half done")
        try:
            await self.work.go.wait()
        except asyncio.CancelledError:
            self.work.cancelled += 1
            raise
        return "done"


def asking_worker(work: Work) -> Worker:
    """A tool that asks twice, the second time with the same key."""
    worker = Worker("asking")

    async def reply(call: Call, request: ToolCall) -> ToolReply:
        work.calls.append(request)
        if request.state == "twice":
            return ToolReply(content=(TextContent(text=str(request.input_responses)),))
        state = "once" if request.state is None else "twice"
        return ToolReply(input_required=InputRequired(requests={"who": ASKS}, state=state))

    worker.add_tool(
        ToolDescriptor(
            name="greet", toolset="asking", description="Greets.", task_after_ms=0,
            input_schema={"type": "object"},
        ),
        reply,
    )  # fmt: skip
    return worker


@dataclass
class Fleet:
    """Two edges of one deployment."""

    urls: list[str]
    work: Work
    broker: MemoryBroker
    first: Edge
    stop_first: Callable[[], Awaitable[None]]


KEY = "k" * 40


@pytest.fixture
async def fleet(monkeypatch) -> AsyncIterator[Fleet]:
    monkeypatch.setattr(running, "BEAT_S", 0.05)
    monkeypatch.setattr(running, "STOP_S", 0.05)
    broker, work = MemoryBroker(), Work()
    worker = Worker("long")
    worker.add(Long(work))
    await broker.connect(name="long").serve(worker)
    await broker.connect(name="asking").serve(asking_worker(work))
    settings = EdgeSettings(state_key=KEY, toolset_order=("long",))
    async with AsyncExitStack() as stack:
        edges, urls, firsts = [], [], []
        for _ in range(2):
            own = AsyncExitStack()
            opened = open_edge(
                broker.connect(name="edge"), settings, default_actor=Actor(subject="reader")
            )
            edges.append(await own.enter_async_context(opened))
            server = await HttpServer.start(build_app(edges[-1], Health()))
            own.push_async_callback(server.stop)
            own.push_async_callback(edges[-1].end_streams)
            stack.push_async_callback(own.aclose)
            urls.append(server.url)
            firsts.append(own.aclose)
        yield Fleet(urls, work, broker, edges[0], firsts[0])
        work.go.set()


def client_of(url: str, *extensions: ClientExtension, path: str = "/mcp") -> Client:
    return Client(url + path, extensions=list(extensions))


async def begin(client: Client, name: str) -> str:
    """Call a tool; the id of the task that the call became."""
    given = await client.session.call_tool(name, {}, allow_claimed=True)
    assert isinstance(given, Given), given
    return given.task_id


async def status_of(client: Client, task_id: str) -> str:
    return (await ask(client.session, "tasks/get", task_id))["status"]


async def ended(client: Client, task_id: str) -> dict[str, Any]:
    """The task once it has ended."""
    found: dict[str, Any] = {}

    async def over() -> bool:
        nonlocal found
        found = await ask(client.session, "tasks/get", task_id)
        return found["status"] not in ("working", "input_required")

    await until(over)
    return found


async def test_a_client_that_polls_gets_the_result_of_a_long_call(fleet):
    """The call goes on at one edge, while the client asks another one."""
    async with (
        client_of(fleet.urls[0], Polling()) as first,
        client_of(fleet.urls[1], Polling()) as second,
    ):
        task_id = await begin(first, "dig")
        found = await ask(second.session, "tasks/get", task_id)
        assert found["status"] == "working"
        assert found["ttlMs"] > 0 and found["pollIntervalMs"] == 1000
        await until(lambda: _has_message(second, task_id))
        fleet.work.go.set()
        result = await first.call_tool("dig", {})
        assert result.content[0].text == "done"
        assert (await ended(second, task_id))["result"]["content"][0]["text"] == "done"


async def _has_message(client: Client, task_id: str) -> bool:
    return (await ask(client.session, "tasks/get", task_id)).get("statusMessage") == "half done"


async def test_quick_calls_and_clients_without_the_extension_get_results(fleet):
    """A server must not return a task to a client that did not declare the extension."""
    fleet.work.go.set()
    async with client_of(fleet.urls[0], Polling()) as client:
        assert (await client.session.call_tool("quick", {})).content[0].text == "quick"
    async with client_of(fleet.urls[0]) as client:
        assert (await client.call_tool("dig", {})).content[0].text == "done"
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(MCPError) as caught:
                await ask(client.session, method, "x")
            assert caught.value.code == -32021
            required = caught.value.data["requiredCapabilities"]
            assert required == {"extensions": {EXTENSION: {}}}


async def test_a_task_is_cancelled_at_another_edge(fleet):
    """The edge that runs it learns so from the store, and ends the work."""
    async with (
        client_of(fleet.urls[0], Polling()) as first,
        client_of(fleet.urls[1], Polling()) as second,
    ):
        task_id = await begin(first, "build")
        await until(lambda: len(fleet.work.calls) == 1)
        await ask(second.session, "tasks/cancel", task_id)
        assert await status_of(first, task_id) == "cancelled"
        await until(lambda: fleet.work.cancelled == 1)
        await ask(second.session, "tasks/cancel", task_id)  # once more changes nothing
        assert await status_of(first, task_id) == "cancelled"


@pytest.mark.parametrize("late", [False, True])
async def test_a_task_outlives_its_edge_where_the_call_may_be_repeated(fleet, late):
    """Another edge runs a read-only call again; of any other it says that it failed. So also where
    the edge ended all calls that still ran."""
    async with client_of(fleet.urls[0], Polling()) as client:
        read, written = await begin(client, "dig"), await begin(client, "build")
        await until(lambda: len(fleet.work.calls) == 2)
    if late:
        fleet.first.end_calls()
    await fleet.stop_first()
    async with client_of(fleet.urls[1], Polling()) as client:
        while len(fleet.work.calls) < 3:  # the last beat of the first edge may come late
            assert await status_of(client, read) == "working"
        fleet.work.go.set()
        assert (await ended(client, read))["result"]["content"][0]["text"] == "done"
        failed = await ask(client.session, "tasks/get", written)
        assert failed["status"] == "failed"
        assert failed["error"]["data"]["code"] == "unavailable"


async def test_a_task_asks_for_input_and_goes_on_with_it(fleet):
    """Keys never repeat; responses to keys that were not asked for are ignored."""

    async def refuse(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async with Client(
        fleet.urls[0] + "/mcp", extensions=[Polling()], elicitation_callback=refuse
    ) as client:
        task_id = await begin(client, "greet")
        keys = []
        for name in ("Ada", "Bob"):
            await until(lambda: _asks(client, task_id))
            found = await ask(client.session, "tasks/get", task_id)
            (key,) = found["inputRequests"]
            keys.append(key)
            for responses in ({"other": {}}, {key: {"action": "accept", "content": {"n": name}}}):
                await ask(client.session, "tasks/update", task_id, inputResponses=responses)
        assert len(set(keys)) == 2
        assert "Bob" in (await ended(client, task_id))["result"]["content"][0]["text"]
    assert [call.state for call in fleet.work.calls] == [None, "once", "twice"]


async def _asks(client: Client, task_id: str) -> bool:
    return await status_of(client, task_id) == "input_required"


async def test_a_task_that_cannot_get_its_input_ends_with_an_error(fleet):
    """The client declared no elicitation."""
    async with client_of(fleet.urls[0], Polling()) as client:
        result = (await ended(client, await begin(client, "greet")))["result"]
        assert result["isError"] and "input" in result["content"][0]["text"]


async def test_a_task_ends_with_its_deadline(fleet):
    """As a call does: with an error result."""
    async with client_of(fleet.urls[0], Polling()) as client:
        result = (await ended(client, await begin(client, "late")))["result"]
        assert "deadline_exceeded" in result["content"][0]["text"]


async def test_a_result_that_is_too_large_is_named_so(fleet):
    """A task keeps no megabytes."""
    async with client_of(fleet.urls[0], Polling()) as client:
        task_id = await begin(client, "large")
        fleet.work.go.set()
        result = (await ended(client, task_id))["result"]
        assert result["isError"] and "too large for a task" in result["content"][0]["text"]


async def test_a_result_that_cannot_be_shown_ends_its_task(fleet, monkeypatch):
    """Another edge would take it over, and call again."""
    monkeypatch.setattr(running, "tool_result", Mock(side_effect=ValueError))
    async with client_of(fleet.urls[0], Polling()) as client:
        task_id = await begin(client, "dig")
        fleet.work.go.set()
        found = await ended(client, task_id)
    assert (found["status"], found["error"]["code"]) == ("failed", -32603)


async def test_beyond_its_share_a_caller_gets_results(fleet):
    """Nothing is refused; the client waits for the call as without the extension."""
    async with client_of(fleet.urls[0], Polling()) as client:
        for _ in range(MAX_PER_CALLER):
            await begin(client, "dig")
        fleet.work.go.set()
        given = await client.session.call_tool("dig", {}, allow_claimed=True)
        assert isinstance(given, types.CallToolResult)


async def test_where_the_store_is_away_a_call_is_answered_in_its_request(fleet):
    """A task that could not be found again would be lost."""
    bucket = await fleet.broker.connect(name="edge").key_value("edge_tasks", ttl_s=1, max_bytes=1)
    bucket.away = True
    fleet.work.go.set()
    async with client_of(fleet.urls[0], Polling()) as client:
        given = await client.session.call_tool("dig", {}, allow_claimed=True)
        assert isinstance(given, types.CallToolResult)


async def test_strangers_find_nothing(fleet):
    """Ids of other callers, of another endpoint, malformed ones: one answer for all."""
    async with (
        client_of(fleet.urls[0], Polling()) as client,
        client_of(fleet.urls[0], Polling(), path="/mcp/long") as elsewhere,
    ):
        task_id = await begin(client, "dig")
        messages = set()
        for session, asked in (
            (elsewhere.session, task_id),
            (client.session, task_id[:-1]),
            (client.session, "x" * 5000),
            (client.session, ""),
        ):
            for method in ("tasks/get", "tasks/cancel"):
                with pytest.raises(MCPError) as caught:
                    await ask(session, method, asked)
                messages.add((caught.value.code, caught.value.message))
        assert messages == {
            (
                -32602,
                "Unknown task: it has expired, or was never created. Use the taskId of a call.",
            )
        }
        assert await status_of(client, task_id) == "working"


async def test_the_header_names_the_task(fleet):
    """Mcp-Name and taskId must agree."""
    meta = {
        types.PROTOCOL_VERSION_META_KEY: "2026-07-28",
        types.CLIENT_INFO_META_KEY: {"name": "t", "version": "1"},
        types.CLIENT_CAPABILITIES_META_KEY: {"extensions": {EXTENSION: {}}},
    }
    async with httpx.AsyncClient() as http:
        for name in ({}, {"Mcp-Name": "other"}):
            answer = await http.post(
                fleet.urls[0] + "/mcp",
                headers={
                    "Accept": "application/json, text/event-stream", "Mcp-Method": "tasks/get",
                    "MCP-Protocol-Version": "2026-07-28", **name,
                },
                json={
                    "jsonrpc": "2.0", "id": 1, "method": "tasks/get",
                    "params": {"taskId": "x", "_meta": meta},
                },
            )  # fmt: skip
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


async def test_older_revisions_have_no_such_method(fleet):
    """The extension is of revision 2026-07-28."""
    async with Client(
        fleet.urls[0] + "/mcp", mode="legacy", extensions=[advertise(EXTENSION)]
    ) as c:
        with pytest.raises(MCPError) as caught:
            await ask(c.session, "tasks/get", "x")
        assert caught.value.code == -32601
        fleet.work.go.set()
        assert (await c.call_tool("dig", {})).content[0].text == "done"

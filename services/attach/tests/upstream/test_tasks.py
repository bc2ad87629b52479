"""Tasks of an attached server are followed to their end, over the SDK's own server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp_types import CONNECTION_CLOSED

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.transports.notes import HttpNotes
from searchbus_attach.upstream import session as module
from searchbus_attach.upstream.connection import ConnectionContext, is_over, open_connection
from searchbus_contracts import Fault
from searchbus_testing import serve, until

TEXT = {"content": [{"type": "text", "text": "done"}]}


class TaskParams(types.RequestParams):
    task_id: str


@dataclass
class Steps(Extension):
    """Each tools/call is a task that shows these statuses, one at each question."""

    identifier = module.TASKS
    statuses: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get),
            MethodBinding("tasks/cancel", TaskParams, self.cancel),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        return {"resultType": "task", **self.task("working")}

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        name = ctx.request.headers.get("mcp-name")
        self.asked.append(("tasks/get", params.task_id, name))
        step = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return {"resultType": "complete", **self.task(step["status"]), **step}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        self.asked.append(("tasks/cancel", params.task_id, ""))
        return {"resultType": "complete"}

    def task(self, status: str) -> dict[str, Any]:
        return {
            "taskId": "t-1", "status": status, "ttlMs": None, "pollIntervalMs": 1,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        }  # fmt: skip


@asynccontextmanager
async def session_with(steps: Steps, monkeypatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(module, "MIN_PAUSE_S", 0.001)
    server = MCPServer("far", extensions=[steps])

    @server.tool()
    def dig() -> str:
        """Dig."""
        return "never"

    app, context = server.streamable_http_app(), ConnectionContext()
    async with server.session_manager.run(), serve(app) as base:
        declared = parse_server("far", {"url": f"{base}/mcp"})
        async with open_connection(declared, context, HttpNotes()) as connection:
            await connection.session.open_session()
            yield connection.session
    await context.aclose()


CALL = {"name": "dig", "arguments": {}}


async def test_the_call_is_answered_with_the_result_of_the_task(monkeypatch):
    """Messages of the status are progress; the header names the task."""
    shown = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        shown.append((progress, message))

    working = {"status": "working", "statusMessage": "half done"}
    steps = Steps([working, working, {"status": "completed", "result": TEXT}])
    async with session_with(steps, monkeypatch) as session:
        assert await session.ask("tools/call", CALL, on_progress) == TEXT
    assert shown == [(1, "half done")]
    assert steps.asked == [("tasks/get", "t-1", "t-1")] * 3


async def test_a_cancelled_call_cancels_the_task(monkeypatch):
    """As its deadline does, which is a cancellation too."""
    steps = Steps([{"status": "working"}])
    async with session_with(steps, monkeypatch) as session:
        call = asyncio.create_task(session.ask("tools/call", CALL))
        await until(lambda: len(steps.asked) > 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert steps.asked[-1][0] == "tasks/cancel"


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ({"status": "failed", "error": {"code": -32603, "message": "boom"}}, MCPError, "boom"),
        ({"status": "failed", "error": 3}, MCPError, "^$"),
        ({"status": "cancelled"}, Fault, "cancelled its task"),
        ({"status": "input_required", "inputRequests": {}}, Fault, "asks for input"),
        ({"status": "completed"}, Fault, "asks for input"),
        ({"status": "nonsense"}, Fault, "asks for input"),
    ],
)
async def test_other_ends_of_a_task_are_failures(monkeypatch, step, error, message):
    """A malformed one too."""
    async with session_with(Steps([step]), monkeypatch) as session:
        with pytest.raises(error, match=message):
            await session.ask("tools/call", CALL)


async def test_a_failed_task_ends_no_connection(monkeypatch):
    """That of which it says so was its own."""
    error = {"code": CONNECTION_CLOSED, "message": "Connection closed"}
    async with session_with(Steps([{"status": "failed", "error": error}]), monkeypatch) as session:
        with pytest.raises(MCPError, match="Connection closed") as failed:
            await session.ask("tools/call", CALL)
    assert not is_over(failed.value)


@pytest.mark.parametrize("task_id", ["", 3, "x" * 10_000])
async def test_a_task_without_a_usable_id_is_a_failure(task_id):
    """Nothing can be asked about it; one of megabytes would be sent with each question."""
    with pytest.raises(Fault, match="without a usable id"):
        await module.task_result(lambda *_: None, {"resultType": "task", "taskId": task_id})

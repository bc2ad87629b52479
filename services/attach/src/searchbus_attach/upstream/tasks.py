"""Tasks of a server (extension `io.modelcontextprotocol/tasks`, SEP-2663): followed to their end.

A call that the server answers with a task stays one call here: its time limit, its progress and its
cancellation are those of any other. The edge makes a task of its own of it, so that the server's id
never leaves this process, and the caller's task outlives the server's connection.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import INTERNAL_ERROR

from searchbus_contracts import ErrorCode, Fault

EXTENSION = "io.modelcontextprotocol/tasks"
MIN_PAUSE_S, MAX_PAUSE_S = 0.2, 10.0
"""Between two questions, whatever the server suggests."""
_CANCEL_TIMEOUT_S = 1.0
_MAX_ID_CHARS = 1024
"""It is sent with each question, in the head of the request as well."""
Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


async def follow(
    ask: Ask, given: dict[str, Any], on_progress: ProgressFnT | None = None
) -> dict[str, Any]:
    """The result of tools/call that a task ends with; cancelling this cancels the task.

    Args:
        ask: sends a method with its parameters to the server.
        given: the CreateTaskResult.
        on_progress: receives each new message of its status.

    Raises:
        MCPError: the task failed, or the server refuses a method.
        Fault: upstream_failed, it was cancelled, asks for input or is malformed.
    """
    task_id, task, steps, shown = given.get("taskId"), given, 0, None
    if not isinstance(task_id, str) or not 0 < len(task_id) <= _MAX_ID_CHARS:
        raise _unusable("began a task without a usable id")
    params = {"taskId": task_id}
    try:
        while task.get("status") == "working" or task is given:
            message = task.get("statusMessage")
            if on_progress is not None and isinstance(message, str) and message != shown:
                steps, shown = steps + 1, message
                await on_progress(steps, None, message)
            await asyncio.sleep(_pause_s(task.get("pollIntervalMs")))
            task = await ask("tasks/get", params)
    except asyncio.CancelledError:
        await _cancel(ask, params)
        raise
    if task.get("status") == "completed" and isinstance(task.get("result"), dict):
        result: dict[str, Any] = task["result"]
        return result
    if task.get("status") == "failed":
        error = task.get("error")
        error = error if isinstance(error, dict) else {}
        code = error.get("code")
        raise MCPError(
            code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message") or "")
        )
    if task.get("status") == "cancelled":
        raise _unusable("cancelled its task")
    await _cancel(ask, params)
    raise _unusable("asks for input of the client, which is not passed on")


async def _cancel(ask: Ask, params: dict[str, Any]) -> None:
    """Ask the server to end a task; whether it does is its own matter."""
    with anyio.move_on_after(_CANCEL_TIMEOUT_S, shield=True):
        try:
            await ask("tasks/cancel", params)
        except MCPError:
            return  # it has ended, or the connection has


def _pause_s(suggested_ms: Any) -> float:
    if not isinstance(suggested_ms, int | float) or not math.isfinite(suggested_ms):
        return 1.0
    return min(MAX_PAUSE_S, max(MIN_PAUSE_S, suggested_ms / 1000))


def _unusable(what: str) -> Fault:
    return Fault(
        ErrorCode.UPSTREAM_FAILED, f"The server {what}. Use another tool.", retryable=False
    )

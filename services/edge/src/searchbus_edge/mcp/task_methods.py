"""tasks/get, tasks/update and tasks/cancel (extension `io.modelcontextprotocol/tasks`, SEP-2663).

Only a request that declares the extension may use them, and only from revision 2026-07-28 on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.server import Server

from searchbus_contracts import Actor

from ..tasks.records import EXTENSION
from ..tasks.running import Tasks
from ..tools.call import MISSING_CAPABILITY, required_capabilities
from ..tools.faults import guarded
from .client import FIRST_REVISION, Context, client_capabilities

P = TypeVar("P", bound="TaskParams")


class TaskParams(types.RequestParams):
    """Parameters of tasks/get and tasks/cancel."""

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of tasks/update: responses by the keys of the requests for input."""

    input_responses: dict[str, Any]


def takes_tasks(ctx: Context) -> bool:
    """Whether the client of a request takes a task in place of a result."""
    return ctx.protocol_version >= FIRST_REVISION and EXTENSION in client_capabilities(ctx)


def add_task_methods(
    server: Server[Any], tasks: Tasks, endpoint: str | None, actor_of: Callable[[Context], Actor]
) -> None:
    """Add the methods to the server of an endpoint (None: `/mcp`), and declare the extension."""

    async def get(ctx: Context, params: TaskParams) -> dict[str, Any]:
        return (await tasks.get(actor_of(ctx), endpoint, params.task_id)).detailed()

    async def update(ctx: Context, params: UpdateParams) -> dict[str, Any]:
        await tasks.update(actor_of(ctx), endpoint, params.task_id, params.input_responses)
        return {}

    async def cancel(ctx: Context, params: TaskParams) -> dict[str, Any]:
        await tasks.cancel(actor_of(ctx), endpoint, params.task_id)
        return {}

    server.extensions[EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, guarded(_gated(get)))
    server.add_request_handler("tasks/update", UpdateParams, guarded(_gated(update)))
    server.add_request_handler("tasks/cancel", TaskParams, guarded(_gated(cancel)))


def _gated(
    handler: Callable[[Context, P], Awaitable[dict[str, Any]]],
) -> Callable[[Context, P], Awaitable[dict[str, Any]]]:
    """Refuse a client that has not declared the extension with its request."""

    async def gated(ctx: Context, params: P) -> dict[str, Any]:
        if ctx.protocol_version < FIRST_REVISION:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not takes_tasks(ctx):
            raise MCPError(
                MISSING_CAPABILITY,
                f"{ctx.method} needs a client that declares the extension {EXTENSION}.",
                {"requiredCapabilities": required_capabilities([EXTENSION])},
            )
        return await handler(ctx, params)

    return gated

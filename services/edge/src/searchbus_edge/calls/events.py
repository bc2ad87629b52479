"""Progress and log events of a worker, forwarded to the client before the result."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.context import ServerRequestContext

from searchbus_contracts import ToolEvent

__all__ = ["SendEvent", "forwarded_events", "log_data", "sending"]

log = logging.getLogger("searchbus.edge")
Context = ServerRequestContext[Any, Any]
SendEvent = Callable[[ToolEvent], Awaitable[None]]
MAX_PENDING_EVENTS = 1000


@asynccontextmanager
async def forwarded_events(send: SendEvent) -> AsyncIterator[Callable[[ToolEvent], None]]:
    """A callback that sends events to the client, in order and before the result.

    A client that does not read loses events beyond `MAX_PENDING_EVENTS`, and never the result.
    """
    # Made at the first event: most calls send none.
    queue: asyncio.Queue[ToolEvent | None] | None = None
    forwarding: asyncio.Task[None] | None = None

    async def forward(queue: asyncio.Queue[ToolEvent | None]) -> None:
        while (event := await queue.get()) is not None:
            try:
                await send(event)
            except Exception:
                log.debug("an event could not be sent to the client", exc_info=True)

    def on_event(event: ToolEvent) -> None:
        nonlocal queue, forwarding
        if queue is None:
            queue = asyncio.Queue(maxsize=MAX_PENDING_EVENTS)
            forwarding = asyncio.get_running_loop().create_task(forward(queue))
        if not queue.full():
            queue.put_nowait(event)

    try:
        yield on_event
    except BaseException:
        if forwarding is not None:
            forwarding.cancel()
        raise
    if queue is not None and forwarding is not None:
        await queue.put(None)
        await forwarding


def sending(ctx: Context) -> SendEvent:
    """Sends an event by the SDK's session of a request."""

    async def send(event: ToolEvent) -> None:
        if event.kind == "progress":
            await ctx.session.report_progress(event.progress, event.total, event.message)
        else:
            # Deprecated in 2026-07-28, where it is sent only to a request that asked for it.
            await ctx.session.send_log_message(
                event.level, log_data(event), event.logger, related_request_id=ctx.request_id
            )

    return send


def log_data(event: ToolEvent) -> Any:
    """The data of a log event as JSON values."""
    data = event.data if event.data is not None else event.message
    return json.loads(json.dumps(data, default=str))

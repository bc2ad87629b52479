"""Progress and log events of a worker, forwarded to the client before the result."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from mcp.server.context import ServerRequestContext

from searchbus_contracts import ToolEvent

log = logging.getLogger("searchbus.edge")
Context = ServerRequestContext[Any, Any]
SendEvent = Callable[[ToolEvent], Awaitable[None]]
MAX_PENDING_EVENTS = 1000


class ForwardedEvents:
    """A callback that sends events to the client, in order and before the result.

        async with ForwardedEvents(send) as on_event:
            ...

    A client that does not read loses events beyond `MAX_PENDING_EVENTS`, and never the result.
    """

    __slots__ = ("_forwarding", "_queue", "_send")

    def __init__(self, send: SendEvent) -> None:
        self._send = send
        # Made at the first event: most calls send none.
        self._queue: asyncio.Queue[ToolEvent | None] | None = None
        self._forwarding: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Callable[[ToolEvent], None]:
        return self._on_event

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._queue is None or self._forwarding is None:
            return
        if kind is not None:
            self._forwarding.cancel()
            return
        try:
            await self._queue.put(None)
            await self._forwarding
        finally:  # the call may be cancelled while a client that does not read holds it here
            self._forwarding.cancel()

    def _on_event(self, event: ToolEvent) -> None:
        if self._queue is None:
            self._queue = asyncio.Queue(maxsize=MAX_PENDING_EVENTS)
            self._forwarding = asyncio.get_running_loop().create_task(self._forward(self._queue))
        if not self._queue.full():
            self._queue.put_nowait(event)

    async def _forward(self, queue: asyncio.Queue[ToolEvent | None]) -> None:
        while (event := await queue.get()) is not None:
            try:
                await self._send(event)
            except Exception:
                log.debug("an event could not be sent to the client", exc_info=True)


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

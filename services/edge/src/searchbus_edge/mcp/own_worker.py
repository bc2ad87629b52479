"""Refuses the service `attach` of this very bus, which would list its own tools again without end.

An attach service asks a server that says it is a searchbus, with the instance of its worker in
`_meta`. What decides is whether that worker is on the bus of this edge: so it is the same for each
edge of a stack, and for `searchbus stdio`, and a searchbus on another bus can be attached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_REQUEST

from searchbus_bus import Bus
from searchbus_contracts import Fault, Ping, Pong
from searchbus_contracts.attach import ATTACHED_BY

__all__ = ["OwnWorker"]

Context = ServerRequestContext[Any, Any]
_SERVICE = "attach"
_TIMEOUT_S = 5.0
"""For the worker's answer; where it is on another bus nobody listens, which is known at once."""


class OwnWorker:
    """Finds out whether a request is from a worker of this bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def refuse(self, ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        """Middleware that refuses such a request. Raises MCPError."""
        worker = ctx.meta.get(ATTACHED_BY) if isinstance(ctx.meta, Mapping) else None
        if isinstance(worker, str) and await self._is_ours(worker):
            raise MCPError(
                INVALID_REQUEST,
                "This is the searchbus that asks. Remove it from its own attached servers.",
                {ATTACHED_BY: worker},
            )
        return await call_next(ctx)

    async def _is_ours(self, worker: str) -> bool:
        try:
            subject = self._bus.subjects.ping(_SERVICE, worker)
            await self._bus.request(subject, Ping(), Pong, service=_SERVICE, timeout_s=_TIMEOUT_S)
        except (Fault, ValueError):  # nobody of that id; or an id that no subject can have
            return False
        return True

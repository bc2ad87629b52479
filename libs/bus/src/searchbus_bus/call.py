"""One request as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from searchbus_contracts import Actor, ToolEvent

from .deadline import Deadline

__all__ = ["Call"]


class Call:
    """One request as its handler sees it.

    Attributes:
        req_id: the id of the request, the same at every service that works on it.
        actor: on whose behalf the request was sent.
        input_responses: the client's responses, for a tool that asked for input (`InputRequired`).
        state: the state that the tool sent with its `InputRequired`.
        client_capabilities: MCP capabilities that the client declared.
        instance_only: whether the sender wants this very instance: the request must not be passed
            on to another one.
    """

    def __init__(
        self,
        *,
        req_id: str,
        service: str,
        subject: str,
        actor: Actor,
        deadline: Deadline,
        send_event: Callable[[ToolEvent], Awaitable[None]],
        instance_only: bool = False,
    ) -> None:
        self.req_id = req_id
        self.input_responses: dict[str, Any] | None = None
        self.state: str | None = None
        self.client_capabilities: tuple[str, ...] = ()
        self.service = service
        self.subject = subject
        self.actor = actor
        self.instance_only = instance_only
        self._deadline = deadline
        self._send_event = send_event

    @property
    def remaining_s(self) -> float:
        """Seconds until the caller's deadline; the handler is cancelled then."""
        return max(0.0, self._deadline.remaining_s)

    async def relay(self, event: ToolEvent) -> None:
        """Pass on an event of another worker that does the work."""
        await self._send_event(event)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the caller; `progress` must increase with every call."""
        await self._send_event(
            ToolEvent(kind="progress", progress=progress, total=total, message=message)
        )

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a line to the client's log; `level` is one of syslog's eight, in lower case."""
        await self._send_event(
            msgspec.convert(
                {"kind": "log", "level": level, "data": data, "logger": logger}, ToolEvent
            )
        )

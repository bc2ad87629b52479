"""Requests that are sent and awaited in the task of their call, beside the SDK's session.

    direct = DirectRequests()
    async with remote_transport(server, notes, direct):
        result = await direct.request(
            "tools/call", {"name": "echo"}, headers={}, on_progress=None, on_abandon=print
        )

The SDK gives each request two tasks, four streams and a model of pydantic, which cost more than all
the rest of a call. It still does what needs its session: the handshake, the lists, subscriptions,
and whatever a server sends that is neither an answer to one of these requests nor their progress.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeGuard

import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT, coerce_request_id
from mcp_types import (
    CONNECTION_CLOSED,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    RequestId,
)
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from searchbus_bus import telemetry

log = logging.getLogger("searchbus.attach")

FIRST_ID = 1_000_000_000
"""The ids before are of the SDK's requests; some servers keep ids in 32 bits."""
_MOST = sys.float_info.max
Answer = JSONRPCResponse | JSONRPCError
Send = Callable[[int, bytes, dict[str, str]], Awaitable[Answer]]
"""Sends the JSON of a request with this id, and headers where there are some; its answer."""


def closed() -> MCPError:
    """The failure of a request whose connection ended, as the SDK has it."""
    return MCPError(CONNECTION_CLOSED, "Connection closed")


class NotDirectError(Exception):
    """Raised by a `Send` that did not send a request: the SDK's session must."""


class DirectRequests:
    """The requests of one connection.

    Attributes:
        send: set by the transport while it can send; `None`: the SDK's session sends all.
    """

    def __init__(self) -> None:
        self.send: Send | None = None
        self._progress: dict[RequestId, ProgressFnT] = {}
        self._ids = itertools.count(FIRST_ID)

    async def request(
        self, method: str, params: dict[str, Any], *,
        headers: dict[str, str], on_progress: ProgressFnT | None, on_abandon: Callable[[int], None],
    ) -> dict[str, Any]:  # fmt: skip
        """Send a request; its result as the server sent it.

        Args:
            on_abandon: called with the id of a request that is cancelled before its answer.

        Raises:
            MCPError: the server refuses, or the connection ended.
            NotDirectError: it was not sent.
        """
        if self.send is None:
            raise NotDirectError
        request_id = next(self._ids)
        with telemetry.EndedSpan(_start_span(method, params, request_id)) as span:
            meta = dict(params.get("_meta") or {})
            telemetry.inject(meta, span)
            if on_progress is not None:
                meta["progressToken"] = request_id
            if meta:
                params = {**params, "_meta": meta}
            message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            body = msgspec.json.encode(message)
            if on_progress is not None:
                self._progress[request_id] = on_progress
            answered = False
            try:
                answer = await self.send(request_id, body, headers)
                answered = True
            except (MCPError, NotDirectError):
                answered = True
                raise
            finally:
                self._progress.pop(request_id, None)
                if not answered:
                    on_abandon(request_id)
            if isinstance(answer, JSONRPCError):
                error = answer.error
                span.set_attribute("error.type", str(error.code))
                span.set_status(Status(StatusCode.ERROR))
                raise MCPError(error.code, error.message, error.data)
            return answer.result

    async def take(self, message: JSONRPCMessage) -> bool:
        """Whether a message is progress of one of these requests, which is passed on then."""
        if not isinstance(message, JSONRPCNotification) or not self._progress:
            return False
        if message.method != "notifications/progress":
            return False
        params = message.params or {}
        token, progress = params.get("progressToken"), params.get("progress")
        total, text = params.get("total"), params.get("message")
        if not isinstance(token, int | str) or not _is_number(progress):
            return False
        on_progress = self._progress.get(coerce_request_id(token))
        if on_progress is None:
            return False
        try:
            await on_progress(
                float(progress),
                float(total) if _is_number(total) else None,
                text if isinstance(text, str) else None,
            )
        except Exception:  # it would end the connection
            log.exception("progress of a call could not be passed on")
        return True


@cache
def _tracer() -> Tracer:
    # At the first span: one that is made before the process has its provider is a slower proxy.
    return trace.get_tracer("searchbus.attach")


def _start_span(method: str, params: dict[str, Any], request_id: int) -> Span:
    """The span of one request, whose context goes with it (SEP-414)."""
    name = params.get("name")
    return _tracer().start_span(
        f"{method} {name}" if isinstance(name, str) else method,
        kind=SpanKind.CLIENT,
        attributes={"mcp.method.name": method, "jsonrpc.request.id": str(request_id)},
    )


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether it fits into a float; JSON has longer integers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST

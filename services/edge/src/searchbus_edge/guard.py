"""What stands before the MCP transport: methods, odd headers, the trace of the HTTP request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["McpGuard", "json_rpc_error"]

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
_propagator = TraceContextTextMapPropagator()


class McpGuard:
    """Wraps the transport of one endpoint.

    A stateless server has nothing to stream on GET and no session to DELETE: both get 405 (the
    transport itself would open an idle stream). Trailing spaces of header values are taken off, as
    the HTTP parser leaves them on.
    """

    def __init__(self, transport: Asgi) -> None:
        self._transport = transport

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request."""
        if scope["method"] not in ("POST", "OPTIONS", "HEAD"):
            await json_rpc_error(
                send, 405, -32600, "Use POST: this endpoint keeps no sessions and no streams.",
                extra=[(b"allow", b"POST")],
            )  # fmt: skip
            return
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        scope = {**scope, "headers": headers}
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        if not carrier:
            await self._transport(scope, receive, send)
            return
        token = otel_context.attach(_propagator.extract(carrier))
        try:
            await self._transport(scope, receive, send)
        finally:
            otel_context.detach(token)


async def json_rpc_error(
    send: Any,
    status: int,
    code: int,
    message: str,
    *,
    extra: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """An HTTP error with a JSON-RPC error as its body."""
    body = json.dumps(
        {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send(
        {"type": "http.response.start", "status": status, "headers": headers + (extra or [])}
    )
    await send({"type": "http.response.body", "body": body})

"""What stands before the MCP transport: methods, odd headers, batches, the request's trace."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .batch import Batch, BatchRefused, parse_batch

__all__ = ["McpGuard", "json_rpc_error"]

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
_propagator = TraceContextTextMapPropagator()


class McpGuard:
    """Wraps the transport of one endpoint.

    A stateless server has nothing to stream on GET and no session to DELETE: both get 405 (the
    transport itself would open an idle stream). Trailing spaces of header values are taken off, as
    the HTTP parser leaves them on.
    """

    def __init__(self, transport: Asgi, *, body_limit_bytes: int) -> None:
        self._transport = transport
        self._body_limit_bytes = body_limit_bytes

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
            await self._serve(scope, receive, send)
            return
        token = otel_context.attach(_propagator.extract(carrier))
        try:
            await self._serve(scope, receive, send)
        finally:
            otel_context.detach(token)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """One message goes to the transport, a batch there message by message."""
        first = await receive()
        if scope["method"] != "POST" or not first.get("body", b"").lstrip().startswith(b"["):
            await self._transport(scope, _replay(first, receive), send)
            return
        try:
            body = await self._body(first, receive)
            revision = dict(scope["headers"]).get(b"mcp-protocol-version")
            messages = parse_batch(body, revision.decode("latin-1") if revision else None)
        except BatchRefused as refused:
            await json_rpc_error(send, refused.status, refused.code, str(refused))
            return
        await Batch(self._transport, messages).answer(scope, receive, send)

    async def _body(self, message: Any, receive: Any) -> bytes:
        body = bytearray(message.get("body", b""))
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
            if len(body) > self._body_limit_bytes:
                raise BatchRefused(f"The body is over {self._body_limit_bytes} bytes.", status=413)
        return bytes(body)


def _replay(first: Any, receive: Any) -> Any:
    """A receive that gives `first` again, then goes on."""
    pending = [first]

    async def replayed() -> Any:
        return pending.pop() if pending else await receive()

    return replayed


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

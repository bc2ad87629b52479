"""Checks each HTTP request before the MCP transport: method, caller, rate, body, role, batches."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from searchbus_contracts import Actor, Fault

from ..auth.authenticator import Authenticator
from ..auth.identity import ACTOR_KEY, Unauthenticated
from ..calls.limits import LocalLimiter
from ..calls.telemetry import Tracing
from ..endpoint import EndpointServer
from ..lists.visible import missing_role
from .batch import Batch, BodyRefused, parse_batch
from .errors import json_rpc_error
from .messages import MessageFault, read_envelope

__all__ = ["McpGuard"]

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class McpGuard:
    """Wraps the transport of one endpoint.

    A stateless server has nothing to stream on GET and no session to DELETE: both get 405 (the
    transport itself would open an idle stream). Trailing spaces of header values are removed, since
    the HTTP parser keeps them.
    """

    def __init__(
        self,
        transport: Asgi,
        server: EndpointServer,
        *,
        authenticator: Authenticator,
        abuse: LocalLimiter,
        tracing: Tracing,
        body_limit_bytes: int,
    ) -> None:
        self._transport = transport
        self._server = server
        self._authenticator = authenticator
        self._abuse = abuse
        self._tracing = tracing
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
        if not self._authenticator.open and scope["method"] == "POST":
            try:
                actor = await self._authenticator.identify(dict(headers), scope["path"])
            except Unauthenticated as error:
                challenge = self._authenticator.challenge(scope["path"], error)
                extra = [(b"www-authenticate", challenge)]
                await json_rpc_error(send, 401, -31401, error.message, extra=extra)
                return
            scope[ACTOR_KEY] = actor
        try:
            await self._abuse.admit(_caller_of(scope))
        except Fault as fault:
            await self._too_many(send, fault)
            return
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        detach = self._tracing.attach(carrier)
        try:
            await self._serve(scope, receive, send)
        finally:
            detach()

    async def _too_many(self, send: Any, fault: Fault) -> None:
        """HTTP 429 with Retry-After (RFC 9110) and the RateLimit headers (IETF httpapi draft)."""
        wait_s = max(1, math.ceil((fault.failure.retry_after_ms or 1000) / 1000))
        burst = self._abuse.burst
        extra = [
            (b"retry-after", b"%d" % wait_s),
            (b"ratelimit-policy", b'"requests";q=%d;w=1' % int(self._abuse.rate_per_s)),
            (b"ratelimit", b'"requests";r=0;t=%d' % wait_s),
        ]
        message = f"rate_limited: {fault.failure.message} At most {burst} at once."
        await json_rpc_error(send, 429, -31429, message, extra=extra)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass one message to the transport, or each message of a batch."""
        if scope["method"] != "POST":
            await self._transport(scope, receive, send)
            return
        try:
            body = await self._body(receive)
            if body.lstrip().startswith(b"["):
                revision = dict(scope["headers"]).get(b"mcp-protocol-version")
                messages = parse_batch(body, revision.decode("latin-1") if revision else None)
                await Batch(self._transport, messages).answer(scope, receive, send)
                return
            envelope = read_envelope(body)
        except BodyRefused as refused:
            await json_rpc_error(send, refused.status, refused.code, str(refused))
            return
        except MessageFault as fault:
            await json_rpc_error(send, 400, fault.code, str(fault), message_id=fault.message_id)
            return
        # A missing role is an HTTP status: it must be known before the response starts.
        role = self._missing_role(envelope.tool, scope.get(ACTOR_KEY))
        if role is not None:
            extra = [(b"www-authenticate", self._authenticator.insufficient(scope["path"], role))]
            await json_rpc_error(
                send, 403, -31403, f"forbidden: The role {role} is needed.", extra=extra,
                message_id=envelope.message_id,
            )  # fmt: skip
            return
        await self._transport(scope, _replay(body, receive), send)

    def _missing_role(self, tool: str, actor: Actor | None) -> str | None:
        """A role of the tool that an authenticated caller lacks."""
        listed = self._server.view.tools.get(tool) if tool else None
        if listed is None or actor is None:
            return None
        return missing_role(actor, listed.descriptor)

    async def _body(self, receive: Any) -> bytes:
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._body_limit_bytes:
                raise BodyRefused(f"The body is over {self._body_limit_bytes} bytes.", status=413)
        return bytes(body)


def _caller_of(scope: Any) -> str:
    """The key of the abuse limit: the authenticated caller, else the client's address."""
    actor = scope.get(ACTOR_KEY)
    client = scope.get("client") or ("", 0)
    return actor.subject if isinstance(actor, Actor) else str(client[0])


def _replay(body: bytes, receive: Any) -> Any:
    """A `receive` that returns the whole body, then what follows."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Any:
        return pending.pop() if pending else await receive()

    return replayed

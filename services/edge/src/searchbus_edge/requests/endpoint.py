"""One MCP endpoint over HTTP: the path of a request, from its head to its response.

`Endpoint.__call__` reads from top to bottom: method → head → caller → abuse limit → transport rules
→ body → role → message. A message is then served by the fast way, or else by the kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from searchbus_contracts import Actor, ErrorCode, Fault

from ..auth.authenticator import Authenticator
from ..auth.identity import Unauthenticated
from ..calls.faults import raise_for
from ..calls.limits import LocalLimiter
from ..calls.telemetry import Tracing
from ..endpoint import EndpointServer, EndpointServers
from ..http.errors import json_rpc_error
from ..lists.registry import Registry
from ..lists.view import View
from ..lists.visible import missing_role
from ..search.lazy import is_call_tool
from .answers import Answer, DisconnectWatch, HttpAnswer
from .batch import Batch, BatchRefused, check_batch
from .body import BodyLimits
from .fast import FastWay
from .fast_search import FastSearch
from .head import AddressRules, Refusal, parse_head
from .kernel import Kernel, Received, is_modern
from .messages import Invalid, Notification, Request, encode_error, parse_body
from .running import RunningRequests
from .tool_calls import ToolCalls

__all__ = ["Endpoint", "Endpoints", "HttpPolicy"]


_CANCELLED = Fault(ErrorCode.CANCELLED, "The client cancelled the request.")


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """Which HTTP requests are accepted.

    Args:
        abuse: limits requests per caller before anything is read.
    """

    authenticator: Authenticator
    abuse: LocalLimiter
    tracing: Tracing
    addresses: AddressRules
    limits: BodyLimits


class Endpoint:
    """An ASGI application for `/mcp` or `/mcp/<toolset>`."""

    def __init__(
        self,
        path: str,
        server: EndpointServer,
        calls: ToolCalls,
        policy: HttpPolicy,
        running: RunningRequests,
    ) -> None:
        self._path = path
        self._server = server
        self._calls = calls
        self._policy = policy
        self._running = running
        self._kernel = Kernel(server.mcp)
        self._fast = FastWay(server, self._kernel, calls, policy.tracing)
        self._search = FastSearch(server, policy.tracing)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request."""
        # A stateless server has nothing to stream on GET and no session to DELETE.
        if scope["method"] != "POST":
            message = "Use POST: this endpoint keeps no sessions and no streams."
            await json_rpc_error(send, 405, -32600, message, extra=[(b"allow", b"POST")])
            return
        head = parse_head(scope["headers"])
        if "authorization" in head.repeated:
            # A proxy before the edge may have checked another one than the edge would.
            await json_rpc_error(send, 400, -32600, "Send one Authorization header.")
            return
        try:
            actor = await self._policy.authenticator.identify(head.authorization, self._path)
        except Unauthenticated as error:
            challenge = self._policy.authenticator.challenge(self._path, error)
            extra = [(b"www-authenticate", challenge)]
            await json_rpc_error(send, 401, -31401, error.message, extra=extra)
            return
        try:
            caller = self._caller(scope, actor)
            await self._policy.abuse.admit(caller)
        except Fault as fault:
            await self._too_many(send, fault)
            return
        refusal = self._policy.addresses.check(head) or head.check_media_types()
        limits = self._policy.limits
        body = refusal or await limits.read(head, receive, self._everything)
        if isinstance(body, bytes):
            body = limits.check(body, self._offered, self._everything) or body
        if isinstance(body, Refusal):
            closing = [(b"connection", b"close")] if body.status == 408 else None
            await json_rpc_error(send, body.status, body.code, body.message, extra=closing)
            return
        await self._serve(Received(head, actor, caller=caller), body, receive, send)

    def _offered(self) -> View:
        """The tools of the endpoint, which only a large body needs."""
        return self._server.view

    def _everything(self) -> View:
        """The tools of the edge, which only a large body needs."""
        return self._calls.everything

    def _caller(self, scope: Any, actor: Actor) -> str:
        """Whose request it is: the identified caller, else the client's address."""
        if self._policy.authenticator.open:
            return str((scope.get("client") or ("",))[0])
        return actor.subject

    async def _serve(self, received: Received, body: bytes, receive: Any, send: Any) -> None:
        """Serve the message, or each message of a batch."""
        answer = HttpAnswer(received.head, send)
        message = parse_body(body, modern=is_modern(received.head.revision))
        ready = self._fast.ready(received, message) if isinstance(message, Request) else None
        if ready is not None:
            # Nothing is waited for, so there is nothing to cancel when the client disconnects.
            await answer.finish(ready)
            return
        with DisconnectWatch(receive, answer):
            if isinstance(message, list):
                await self._serve_batch(received, message, answer, send)
            elif not await self._lacks_role(received, message, send):
                await self.message(received, message, answer)

    async def _serve_batch(
        self, received: Received, messages: list[Any], answer: HttpAnswer, send: Any
    ) -> None:
        try:
            check_batch(messages, received.head.revision)
        except BatchRefused as refused:
            await json_rpc_error(send, 400, refused.code, str(refused))
            return
        await Batch(messages, received, self.message).answer(send, answer)

    async def message(
        self, received: Received, message: Request | Notification | Invalid, answer: Answer
    ) -> None:
        """Serve one message."""
        if isinstance(message, Invalid):
            await answer.finish(encode_error(message.id, message.code, message.message), status=400)
        elif isinstance(message, Notification):
            if message.method == "notifications/cancelled":
                await self._cancel(received, message)
            error = await self._kernel.notification(received, message)
            await answer.finish(error or b"", status=400 if error else 202)
        elif is_modern(received.head.revision):  # whose clients cancel by closing the connection
            await self._request(received, message, answer)
        else:
            work = self._request(received, message, answer)
            if not await self._running.run(received.caller, message.id, work):
                reason = raise_for(_CANCELLED).error
                await answer.finish(
                    encode_error(message.id, reason.code, reason.message, reason.data)
                )

    async def _request(self, received: Received, request: Request, answer: Answer) -> None:
        if not (
            await self._fast.serve(received, request, answer)
            or await self._search.serve(received, request, answer)
        ):
            await self._kernel.request(received, request, answer)

    async def _cancel(self, received: Received, message: Notification) -> None:
        if not is_modern(received.head.revision):
            await self._running.cancel(received.caller, (message.params or {}).get("requestId"))

    async def _lacks_role(self, received: Received, message: Any, send: Any) -> bool:
        """Refuse a call whose tool needs a role that an identified caller lacks (RFC 6750, 3.1)."""
        if self._policy.authenticator.open or not isinstance(message, Request):
            return False
        name = message.called_tool()
        listed = self._server.view.tools.get(name) if name else None
        if listed is not None and is_call_tool(listed):
            listed = self._calls.everything.tools.get(message.named_argument())
        role = missing_role(received.actor, listed.descriptor) if listed is not None else None
        if role is None:
            return False
        challenge = self._policy.authenticator.insufficient(self._path, role)
        await json_rpc_error(
            send, 403, -31403, f"forbidden: The role {role} is needed.",
            extra=[(b"www-authenticate", challenge)], message_id=message.id,
        )  # fmt: skip
        return True

    async def _too_many(self, send: Any, fault: Fault) -> None:
        """HTTP 429 with Retry-After (RFC 9110) and the RateLimit headers (IETF httpapi draft)."""
        abuse = self._policy.abuse
        wait_s = max(1, math.ceil((fault.failure.retry_after_ms or 1000) / 1000))
        extra = [
            (b"retry-after", b"%d" % wait_s),
            (b"ratelimit-policy", b'"requests";q=%d;w=1' % int(abuse.rate_per_s)),
            (b"ratelimit", b'"requests";r=0;t=%d' % wait_s),
        ]
        message = f"rate_limited: {fault.failure.message} At most {abuse.burst} at once."
        await json_rpc_error(send, 429, -31429, message, extra=extra)


class Endpoints:
    """Makes each endpoint at its first request: a new toolset needs no restart."""

    def __init__(
        self,
        registry: Registry,
        servers: EndpointServers,
        calls: ToolCalls,
        policy: HttpPolicy,
        running: RunningRequests,
    ) -> None:
        self._registry = registry
        self._servers = servers
        self._calls = calls
        self._policy = policy
        self._running = running
        self._endpoints: dict[str | None, Endpoint] = {}

    def get(self, toolset: str | None) -> Endpoint | None:
        """The endpoint `/mcp` (None) or `/mcp/<toolset>`; None for an unknown toolset."""
        if toolset is not None and not self._registry.offers(toolset):
            return None
        endpoint = self._endpoints.get(toolset)
        if endpoint is None:
            path = "/mcp" if toolset is None else f"/mcp/{toolset}"
            endpoint = Endpoint(
                path, self._servers.get(toolset), self._calls, self._policy, self._running
            )
            self._endpoints[toolset] = endpoint
        return endpoint

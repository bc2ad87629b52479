"""One MCP endpoint over HTTP: the path of a request, from its head to its response.

`Endpoint.__call__` reads from top to bottom: method → head → caller → abuse limit → transport rules
→ body → target of a call → its limits and roles → message. A message is then served by the fast
way, or else by the kernel.

JSON-RPC batches are of revision 2025-03-26: servers must accept them; later revisions have none.
Each message of a batch is served like a request of its own. The responses are sent in one event
stream, each as soon as it is ready, or in one JSON array to a client that accepts no stream.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from mcp.shared.exceptions import MCPError

from searchbus_bus.tasks import all_of
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.subjects import is_token

from ..http.answer import Answer, DisconnectWatch, HttpAnswer, PlainAnswer
from ..http.body import check_media_types
from ..http.faults import HttpRefusedError, refused, unknown_toolset
from ..http.head import Received
from ..tools.admission import HttpPolicy
from ..tools.faults import raise_for
from ..tools.resolve import Target
from .fast import FastWay
from .fast_search import FastSearch
from .kernel import Called, Kernel
from .messages import (
    LISTEN,
    Invalid,
    Message,
    Notification,
    RpcRequest,
    encode_error,
    read_message,
    read_other,
    read_request,
)
from .running import RunningRequests
from .servers import EndpointServer, EndpointServers

_CANCELLED = Fault(ErrorCode.CANCELLED, "The client cancelled the request.")
MAX_LISTEN_BYTES = 16 * 1024
"""Limit of a request for changes, which is kept as long as its client listens."""
MAX_BATCH = 50
ServeMessage = Callable[[Received, Message, Answer], Coroutine[Any, Any, None]]


class McpEndpoint:
    """An ASGI application for `/mcp` or `/mcp/<toolset>`."""

    def __init__(
        self,
        path: str,
        server: EndpointServer,
        policy: HttpPolicy,
        running: RunningRequests,
    ) -> None:
        self._path = path
        self._server = server
        self._policy = policy
        self._running = running
        self._kernel = Kernel(server.mcp)
        self._fast = FastWay(server, self._kernel, policy.tracing)
        self._search = FastSearch(server, policy.tracing)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        try:
            await self._receive(scope, receive, send)
        except HttpRefusedError as refusal:
            await refused(refusal).send(send)

    async def _receive(self, scope: Any, receive: Any, send: Any) -> None:
        received = await _admit(self._policy, self._path, scope)
        if self._server.joins:
            received.actor = self._server.bound(received.actor)
        limits = self._policy.limits
        check_media_types(received.head)
        body = await limits.read(received, receive, self._server.largest_request)
        request = read_request(body)
        target = self._target(request)
        if len(body) > MAX_LISTEN_BYTES and request and request.method == LISTEN:
            text = f"{LISTEN} is over {MAX_LISTEN_BYTES} bytes. Name fewer resources, or send less "
            text += "of the client in _meta."
            raise HttpRefusedError(413, text)
        if len(body) > limits.small_bytes:
            limits.check(body, target.max_request_bytes if target is not None else 0)
        message = request or read_other(body, modern=received.head.modern)
        await self._serve(received, message, target, receive, send)

    def _target(self, message: Message | None) -> Target | None:
        """What a tools/call is for; None for every other message."""
        if not isinstance(message, RpcRequest) or message.method != "tools/call":
            return None
        name = message.called_tool()
        view = self._server.view
        return self._server.calls.resolver.of_names(view, name, message.named_argument)

    async def _serve(
        self,
        received: Received,
        message: Message | list[Any],
        target: Target | None,
        receive: Any,
        send: Any,
    ) -> None:
        """Serve the message, or each message of a batch."""
        answer = HttpAnswer(received.head, send)
        if target is None and isinstance(message, RpcRequest):
            ready = self._fast.ready(received, message)
            if ready is not None:
                # Nothing is waited for, so nothing is cancelled when the client disconnects.
                await answer.finish(ready)
                return
        admits = None
        if isinstance(message, RpcRequest) and message.method == LISTEN:
            admits = partial(self._policy.admits, received, self._path)
        with DisconnectWatch(receive, answer, admits) as watch:
            if isinstance(message, list):
                await self._serve_batch(received, message, answer, send)
            elif (refusal := self._lacks_role(received, target)) is not None:
                await refused(refusal, _id_of(message)).send(send)
            else:
                await self.message(received, message, target, answer)
        if watch.gone and answer.started:  # whoever may not listen any more is still connected
            await answer.end()

    async def _serve_batch(
        self, received: Received, messages: list[Any], answer: HttpAnswer, send: Any
    ) -> None:
        check_batch(messages, received.head.revision)
        counted = True  # the first message, as the request that brought it

        async def serve(received: Received, message: Message, answer: Answer) -> None:
            nonlocal counted
            if not counted and (error := await self._too_many(received)) is not None:
                await answer.finish(*_refusal(message, error))
                return
            counted = False
            target = self._target(message)
            if (refusal := self._lacks_role(received, target)) is not None:
                await answer.finish(encode_error(_id_of(message), refusal.code, refusal.message))
                return
            await self.message(received, message, target, answer)

        await answer_batch(messages, received, serve, send, answer)

    async def _too_many(self, received: Received) -> MCPError | None:
        """Count one more message of a batch; why it is refused, where there are too many."""
        try:
            await self._policy.abuse.admit(received.caller)
        except Fault as fault:
            return raise_for(fault)
        return None

    async def message(
        self, received: Received, message: Message, target: Target | None, answer: Answer
    ) -> None:
        """Serve one message."""
        if isinstance(message, Invalid):
            await answer.finish(encode_error(message.id, message.code, message.message), status=400)
        elif isinstance(message, Notification):
            if message.method == "notifications/cancelled" and not received.head.modern:
                request_id = (message.params or {}).get("requestId")
                await self._running.cancel(received.caller, request_id)
            error = await self._kernel.notification(received, message)
            await answer.finish(error or b"", status=400 if error else 202)
        elif received.head.modern:  # whose clients cancel by closing the connection
            await self._request(received, message, target, answer)
        else:
            work = self._request(received, message, target, answer)
            if not await self._running.run(received.caller, message.id, work, answer):
                reason = raise_for(_CANCELLED).error
                await answer.finish(
                    encode_error(message.id, reason.code, reason.message, reason.data)
                )

    async def _request(
        self, received: Received, request: RpcRequest, target: Target | None, answer: Answer
    ) -> None:
        if request.method == "tools/search":
            served = await self._search.serve(received, request, answer)
        else:
            served = await self._fast.serve(received, request, answer, target)
        if not served:
            await self._kernel.request(Called.of(received, target), request, answer)

    def _lacks_role(self, received: Received, target: Target | None) -> HttpRefusedError | None:
        """Why a call is refused whose tool needs a role that an identified caller lacks."""
        called = target.called if target is not None else None
        if called is None or not called.required_roles:
            return None
        return self._policy.check_role(received.actor, self._path, called)


async def _admit(policy: HttpPolicy, path: str, scope: Any) -> Received:
    """Admit a request to the endpoint of a path; raises HttpRefusedError."""
    # A stateless server has nothing to stream on GET and no session to DELETE.
    if scope["method"] != "POST":
        message = "Use POST: this endpoint keeps no sessions and no streams."
        raise HttpRefusedError(405, message, headers=((b"allow", b"POST"),))
    received = await policy.admit(scope, path)
    if policy.arrivals.watched:
        policy.arrivals.note(path, received)
    return received


def _id_of(message: Message) -> Any:
    return None if isinstance(message, Notification) else message.id


def _refusal(message: Message, raised: MCPError) -> list[bytes]:
    """The response to a message that is not served; a notification has none."""
    if isinstance(message, Notification):
        return []
    error = raised.error
    return [encode_error(message.id, error.code, error.message, error.data)]


class Endpoints:
    """Makes each endpoint at its first request: a new toolset needs no restart."""

    def __init__(
        self, servers: EndpointServers, policy: HttpPolicy, running: RunningRequests
    ) -> None:
        self._servers = servers
        self._policy = policy
        self._running = running
        self._endpoints: dict[str | None, McpEndpoint] = {}

    def get(self, toolset: str | None) -> McpEndpoint | None:
        """The endpoint `/mcp` (None) or one below it; None for an unknown name."""
        if toolset is not None and not self._servers.registry.offers(toolset):
            return None
        endpoint = self._endpoints.get(toolset)
        if endpoint is None:
            path = "/mcp" if toolset is None else f"/mcp/{toolset}"
            endpoint = McpEndpoint(path, self._servers.make(toolset), self._policy, self._running)
            self._endpoints[toolset] = endpoint
        return endpoint

    async def unknown(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request to an unknown toolset: strangers get the answer of a known one."""
        path = scope["path"].rstrip("/")
        toolset = path.removeprefix("/mcp/")
        try:
            if is_token(toolset):
                await _admit(self._policy, path, scope)
        except HttpRefusedError as refusal:
            await refused(refusal).send(send)
        else:
            await refused(HttpRefusedError(404, unknown_toolset(toolset))).send(send)


def check_batch(messages: list[Any], revision: str | None) -> None:
    """Refuse a batch, by the MCP-Protocol-Version header too; 2025-03-26 sends none. Raises
    HttpRefusedError."""
    if revision is not None and revision > "2025-03-26":
        message = f"Revision {revision} has no batches. Send one message per request."
        raise HttpRefusedError(400, message)
    if not messages:
        raise HttpRefusedError(400, "The batch is empty.")
    if not any(isinstance(message, dict) for message in messages):
        raise HttpRefusedError(400, "The batch has no message. Each must be a JSON object.")
    if len(messages) > MAX_BATCH:
        message = f"The batch has {len(messages)} messages; {MAX_BATCH} are allowed."
        raise HttpRefusedError(400, message)


async def answer_batch(
    messages: list[Any], received: Received, serve: ServeMessage, send: Any, stream: HttpAnswer
) -> None:
    """Serve all messages by `serve`; cancelling this cancels what still runs."""
    checked = [_checked(message) for message in messages]
    invalid = all(isinstance(message, Invalid) for message in checked)
    silent = all(isinstance(message, Notification) for message in checked)
    streams = received.head.accepts_events and not invalid and not silent
    parts = [_Part(stream if streams else None) for _ in checked]
    served = zip(checked, parts, strict=True)
    await all_of(*(serve(received, message, part) for message, part in served))
    if streams:
        await stream.end()
    elif silent:
        await PlainAnswer(status=202).send(send)
    else:
        body = b"[" + b",".join(part.response for part in parts if part.response) + b"]"
        await PlainAnswer(body, status=400 if invalid else 200).send(send)


class _Part:
    """The answer to one message: sent by the stream of its batch; without one the response is kept,
    and notifications are dropped."""

    def __init__(self, stream: HttpAnswer | None) -> None:
        self._stream = stream
        self.response = b""
        self.finished = False

    async def notify(self, message: bytes) -> None:
        if self._stream is not None:
            await self._stream.notify(message)

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        self.finished = True
        response = b"".join(parts)
        if self._stream is None:
            self.response = response
        elif response:
            await self._stream.notify(response)


def _checked(value: Any) -> Message:
    """A message; an error for one that a batch must not contain."""
    message = read_message(value, modern=False)
    if isinstance(message, RpcRequest) and message.method == "initialize":
        # 2025-03-26, lifecycle: "The initialize request MUST NOT be part of a batch".
        return Invalid(-32600, "initialize cannot be part of a batch.", message.id)
    return message

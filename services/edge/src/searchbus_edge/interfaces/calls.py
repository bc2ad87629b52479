"""Calls tools for requests of plain HTTP: what every interface beside MCP is made of.

    received = await calls.admit(scope)                      # who calls
    arguments = await calls.arguments(received, receive)     # a JSON object, within the limits
    with DisconnectWatch(receive, None) as watch:            # a client that leaves cancels the call
        served = await calls.call(received, calls.everything, "web_search", arguments)
    await send_response(send, 200, served.reply.structured)

Each step raises a ProblemError, which `send_problem` answers; an interface with errors of its own
form reads `error.problem`. A call is one of `ToolCalls`, so limits, roles, audit and traces are
those of MCP.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from searchbus_contracts import ErrorCode, ToolEvent
from searchbus_contracts.codec import long_integer

from ..catalog.registry import Registry
from ..catalog.view import ListedTool, View
from ..http.body import NOT_JSON, decode_json
from ..http.head import Head, Received, Refusal
from ..http.problems import Problem, ProblemError
from ..tools.admission import HttpPolicy
from ..tools.call import Served, ToolCalls, ToolRequest
from ..tools.faults import shown_error
from ..tools.telemetry import MessageSpan

__all__ = ["HttpCalls", "read_arguments"]

_JSON = "application/json"
_OTHER_SITES = (b"cross-site", b"same-site")
RESOURCE = "/mcp"
"""The protected resource whose tokens are accepted, also where an address names a toolset: one
token serves all that /openapi.json lists."""


class HttpCalls:
    """The pipeline of an edge, for plain HTTP.

    Args:
        policy: the one of the MCP endpoints, so that all interfaces are limited together.
    """

    def __init__(self, registry: Registry, calls: ToolCalls, policy: HttpPolicy) -> None:
        self._registry = registry
        self._calls = calls
        self._policy = policy

    @property
    def everything(self) -> View:
        """Every tool, under its name on `/mcp`."""
        return self._registry.view(None)

    def toolset(self, name: str) -> View | None:
        """The tools of one toolset, under their own names; None for an unknown toolset."""
        return self._registry.view(name) if self._registry.offers(name) else None

    async def admit(self, scope: Any, *, linked: bool = False) -> Received:
        """The head and the caller of a request; raises ProblemError.

        A page of another site could make a browser send a GET here, without an Origin header.

        Args:
            scope: of the ASGI request.
            linked: whether pages of other sites may lead to it.
        """
        found = await self._policy.admit(scope, RESOURCE)
        if isinstance(found, Received) and not (linked or found.head.origin):
            site = next((value for name, value in found.head.raw if name == b"sec-fetch-site"), b"")
            if site in _OTHER_SITES:
                found = Refusal(403, "Requests of other sites are refused.")
        if isinstance(found, Refusal):
            raise ProblemError.of_refusal(found)
        return found

    async def body(
        self, received: Received, receive: Any, *, tool: ListedTool | None = None
    ) -> bytes:
        """The body of a request, of any media type; raises ProblemError.

        Args:
            receive: of the ASGI request.
            tool: the one that it calls, which may allow a larger body.
        """
        limits = self._policy.limits
        found = await limits.read(received.head, receive, lambda: self.everything.max_request_bytes)
        if isinstance(found, bytes):
            found = limits.check(found, _declared(tool)) or found
        if isinstance(found, Refusal):
            raise ProblemError.of_refusal(found)
        return found

    async def arguments(
        self, received: Received, receive: Any, *, tool: ListedTool | None = None
    ) -> dict[str, Any]:
        """The JSON object of a body, empty where there is no body; raises ProblemError.

        Args:
            receive: of the ASGI request.
            tool: the one that it calls, which may allow a larger body.
        """
        return read_arguments(await self.unread_arguments(received, receive, tool=tool))

    async def unread_arguments(
        self, received: Received, receive: Any, *, tool: ListedTool | None = None
    ) -> bytes:
        """The body of such a request, for `read_arguments`; raises ProblemError."""
        refusal = _check_media_type(received.head)
        if refusal is not None:
            raise ProblemError.of_refusal(refusal)
        return await self.body(received, receive, tool=tool)

    async def call(
        self,
        received: Received,
        view: View,
        name: str,
        arguments: dict[str, Any],
        *,
        on_event: Callable[[ToolEvent], None] | None = None,
        timeout_s: float | None = None,
        inside: bool = False,
    ) -> Served:
        """Call a tool; the reply is one that succeeded.

        Args:
            view: the tools among which `name` is looked up.
            on_event: receives progress and log events.
            timeout_s: of a caller with a deadline of its own.
            inside: whether it is one of several calls within a `message`, whose span is the
                current one.

        Raises:
            ProblemError: for every failure.
        """
        target = self._calls.resolver.target(view, name, arguments)
        refusal = self._policy.check_role(received.actor, RESOURCE, target.called)
        if refusal is not None:
            raise ProblemError.of_refusal(refusal)
        with nullcontext() if inside else self.message(received, "tools/call") as outcome:
            try:
                served = await self._calls.call(
                    ToolRequest(
                        received.actor, target, arguments,
                        on_event=on_event, timeout_s=timeout_s, for_composite=inside,
                    )
                )  # fmt: skip
            except Exception as error:
                raise ProblemError(_problem(shown_error(error, "tools/call"))) from None
            if served.reply.is_error or served.reply.input_required is not None:
                if outcome is not None:
                    outcome.error = "tool_error"
                raise ProblemError(Problem.of_reply(served.reply))
            return served

    def message(self, received: Received, method: str) -> MessageSpan:
        """The span and the duration of a request that does what a method of MCP does."""
        head = received.head
        return self._policy.tracing.message(
            method, None, None, header=(head.traceparent, head.tracestate), meta={}
        )


def read_arguments(body: bytes) -> dict[str, Any]:
    """The JSON object of a body, empty where there is none; raises ProblemError."""
    if refused := long_integer(body):
        raise ProblemError.of_refusal(Refusal(400, refused))
    try:
        found = decode_json(body) if body else {}
    except ValueError:
        raise ProblemError.of_refusal(Refusal(400, NOT_JSON)) from None
    if not isinstance(found, dict):
        raise ProblemError.of_refusal(Refusal(400, "The body must be a JSON object."))
    return found


def _problem(error: MCPError) -> Problem:
    """The problem of a call; the only parameter that MCP finds wrong in one is the tool's name."""
    if error.error.code != INVALID_PARAMS:
        return Problem.of_mcp(error)
    text = error.error.message.replace("tools/list shows", "GET /openapi.json lists")
    return Problem.of(ErrorCode.NOT_FOUND, text)


def _declared(tool: ListedTool | None) -> int:
    return tool.descriptor.max_request_bytes if tool is not None else 0


def _check_media_type(head: Head) -> Refusal | None:
    if head.content_type.partition(";")[0].strip().lower() != _JSON:
        return Refusal(415, "Send the arguments as a JSON object, with Content-Type: " + _JSON)
    if head.content_encoding not in ("", "identity"):
        return Refusal(415, "Send the body as it is, without Content-Encoding.")
    return None

"""Calls tools for requests of plain HTTP: what every interface beside MCP is made of.

Each step raises Fault, or HttpError where it has a status of its own. A call is one of `ToolCalls`,
so limits, roles, audit and traces are those of MCP.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from fastapi import FastAPI, Request
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from searchbus_bus.telemetry import trace_id
from searchbus_contracts import ErrorCode, Fault, ToolEvent, decode

from ..catalog.registry import Registry
from ..catalog.view import View
from ..http.answer import TEXT, PlainAnswer
from ..http.body import check_encoding
from ..http.faults import TOOL_ERROR, Form, HttpError, HttpRefusedError, failed
from ..http.head import Head, Received, parse_head
from ..mcp.messages import name_in
from ..tools.admission import HttpPolicy
from ..tools.call import MISSING_CAPABILITY, Served, ToolCalls, ToolRequest
from ..tools.faults import shown_error
from ..tools.reply import Reply
from ..tools.telemetry import MessageSpan

_JSON = "application/json"
_MAX_PARAMETERS = 100
_OTHER_SITES = (b"cross-site", b"same-site")
RESOURCE = "/mcp"
"""The protected resource whose tokens are accepted, also where an address names a toolset: one
token serves all that /openapi.json lists."""
_NEEDS_MCP = "The tool needs input from the client while it runs. Call it over MCP, at /mcp."


class HttpCalls:
    """The pipeline of an edge for plain HTTP; limits hold for it and the MCP endpoints together."""

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
        """The head and the caller of a request; raises HttpError. Unless `linked`, none that
        another site's page made the browser send: a GET comes without an Origin header."""
        found = await self._policy.admit(scope, RESOURCE)
        if not (linked or found.head.origin):
            site = next((value for name, value in found.head.raw if name == b"sec-fetch-site"), b"")
            if site in _OTHER_SITES:
                raise HttpRefusedError(403, "Requests of other sites are refused.")
        return found

    def check_address(self, scope: Any) -> None:
        """Refuse a request for another Host, or from a page of another site; raises HttpError."""
        self._policy.addresses.check(parse_head(scope["headers"]))

    async def body(
        self, received: Received, receive: Any, declared: Callable[[bytes], int] = lambda _: 0
    ) -> bytes:
        """The body of a request, of any media type, with as many bytes as `declared` allows it
        beyond the usual limit; raises HttpError."""
        limits = self._policy.limits
        found = await limits.read(received, receive, lambda: self.everything.max_request_bytes)
        limits.check(found, declared(found))
        return found

    async def json_of_stranger(self, head: Head, receive: Any) -> bytes:
        """A small body that is to be JSON, read before its sender is known; raises HttpError."""
        _check_media_type(head)
        limits = self._policy.limits
        found = await limits.read_of_stranger(head, receive)
        limits.check(found, 0)
        return found

    async def file(self, received: Received, receive: Any) -> bytes:
        """A body that is a file, up to the limit of any request; raises HttpError."""
        limits = self._policy.limits
        return await limits.read(received, receive, lambda: limits.most_bytes)

    async def json(
        self, received: Received, receive: Any, declared: Callable[[bytes], int] = lambda _: 0
    ) -> bytes:
        """A body that is to be JSON, for `read_arguments`; see `body`. Raises HttpError."""
        _check_media_type(received.head)
        return await self.body(received, receive, declared)

    async def arguments(
        self, received: Received, receive: Any, view: View, name: str
    ) -> dict[str, Any]:
        """The arguments of a call, in a body as large as its tool allows, also where call_tool
        names that; raises HttpError."""
        target = partial(self._calls.resolver.of_names, view, name)
        body = await self.json(
            received, receive, lambda body: target(partial(name_in, body)).max_request_bytes
        )
        return read_arguments(body)

    async def call(
        self,
        received: Received,
        view: View,
        name: str,
        arguments: dict[str, Any],
        *,
        on_event: Callable[[ToolEvent], None] | None = None,
        on_trace: Callable[[str], None] | None = None,
        timeout_s: float | None = None,
        inside: bool = False,
    ) -> Served:
        """Call a tool of a view; raises Fault (it failed), HttpError (the caller lacks a role).

        Args:
            on_event: receives progress and log events.
            on_trace: receives the id of the trace before the call.
            timeout_s: of a caller with a deadline of its own.
            inside: whether it is one of several calls within a `message`, whose span is the
                current one.
        """
        target = self._calls.resolver.target(view, name, arguments)
        refusal = self._policy.check_role(received.actor, RESOURCE, target.called)
        if refusal is not None:
            raise refusal
        actor = received.actor
        if view.joined:
            actor = msgspec.structs.replace(actor, endpoint=view.toolset)
        with nullcontext() if inside else self.message(received, "tools/call") as outcome:
            if on_trace is not None:
                on_trace(trace_id())
            try:
                served = await self._calls.call(
                    ToolRequest(
                        actor, target, arguments,
                        on_event=on_event, timeout_s=timeout_s, for_composite=inside,
                    )
                )  # fmt: skip
            except Exception as error:
                raise _call_failure(error) from None
            if served.reply.is_error or served.reply.input_required is not None:
                if outcome is not None:
                    outcome.error = "tool_error"
                raise _failure_of(served.reply)
            return served

    def message(self, received: Received, method: str) -> MessageSpan:
        """The span and the duration of a request that does what a method of MCP does."""
        head = received.head
        return self._policy.tracing.message(
            method, None, None, header=(head.traceparent, head.tracestate), meta={}
        )


def plain_app(
    calls: HttpCalls, form: Form, *, nothing: str = "There is nothing at this address."
) -> FastAPI:
    """An application without routes, whose failures have the form of an interface (`nothing`: for
    any path). Whoever asks is identified first, also for an address or a method that does not
    exist."""
    app = bare_app()

    async def nowhere(request: Request, error: HTTPException) -> PlainAnswer:
        refusal = HttpRefusedError(404, nothing)
        if error.status_code != 404:
            methods = allowed(app, request.scope)
            headers = ((b"allow", methods.encode()),)
            refusal = HttpRefusedError(405, f"Use {methods}.", headers=headers)
        try:
            await calls.admit(request.scope)
        except HttpRefusedError as stranger:
            return failed(stranger, form)
        return failed(refusal, form)

    async def fail(request: Request, error: Fault | HttpError) -> PlainAnswer:
        return failed(error, form)

    app.exception_handlers |= {HTTPException: nowhere, HttpError: fail, Fault: fail}
    return app


class _App(FastAPI):
    def get(self, path: str, **options: Any) -> Any:
        """Add what answers GET, and so HEAD (RFC 9110, 9.1); the server sends no body then."""
        return self.api_route(path, methods=["GET", "HEAD"], **options)


def bare_app() -> FastAPI:
    """An application without routes and pages of its own."""

    async def broken(request: Request, error: Exception) -> PlainAnswer:
        return PlainAnswer(b"Internal Server Error", status=500, content_type=TEXT)

    return _App(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        exception_handlers={Exception: broken},
        # The address of a redirect would be the Host that the client sends.
        redirect_slashes=False,
        # Its span would take any client's context as the parent; tools/telemetry.py decides that.
        telemetry={"tracing": False},
    )


def allowed(app: FastAPI, scope: Any) -> str:
    """The methods of the address of a request, as the header Allow has them."""
    routes = (route for route in app.routes if isinstance(route, Route))
    found = (route.methods for route in routes if route.matches(scope)[0] != Match.NONE)
    return ", ".join(sorted({method for methods in found for method in methods or ()}))


def parameters(text: bytes) -> dict[str, str]:
    """The parameters of a form or an address, of a repeated one the last; raises HttpError."""
    return dict(pairs_of(text))


def pairs_of(text: bytes) -> list[tuple[str, str]]:
    """The parameters of a form or an address in their order; raises HttpError."""
    try:
        return parse_qsl(
            text.decode("utf-8", "replace"),
            keep_blank_values=True,
            max_num_fields=_MAX_PARAMETERS,
        )
    except ValueError:
        message = f"There are over {_MAX_PARAMETERS} parameters."
        raise HttpRefusedError(400, message) from None


def read_arguments(body: bytes) -> dict[str, Any]:
    """The JSON object of a body, empty where there is none; raises HttpError."""
    try:
        found: Any = decode(body, Any) if body else {}
    except Fault as fault:
        raise HttpRefusedError(400, fault.failure.message) from None
    if not isinstance(found, dict):
        raise HttpRefusedError(400, "The body must be a JSON object.")
    return found


def failure_of(error: Exception, method: str) -> Fault | HttpError:
    """What the client receives for an exception; a text that is not meant for it is logged."""
    if isinstance(error, Fault | HttpError):
        return error
    found = shown_error(error, method).error
    if found.code == INVALID_PARAMS:
        return Fault(ErrorCode.INVALID_ARGUMENT, found.message)
    if found.code == MISSING_CAPABILITY:
        return Fault(ErrorCode.INVALID_ARGUMENT, _NEEDS_MCP)
    return Fault(ErrorCode.INTERNAL, found.message)


def _call_failure(error: Exception) -> Fault | HttpError:
    """The only parameter that MCP finds wrong in a call is the tool's name."""
    if isinstance(error, MCPError) and error.error.code == INVALID_PARAMS:
        text = error.error.message.replace("tools/list shows", "GET /openapi.json lists")
        return Fault(ErrorCode.NOT_FOUND, text)
    return failure_of(error, "tools/call")


def _failure_of(reply: Reply) -> Fault:
    """The failure of a reply with `is_error`, or of one that needs input from an MCP client."""
    if reply.input_required is not None:
        return Fault(ErrorCode.INVALID_ARGUMENT, _NEEDS_MCP)
    # One that is not of the wire is in the tool's own words.
    return reply.fault("\n\n".join(reply.texts) or "The tool reports a failure.", TOOL_ERROR)


def _check_media_type(head: Head) -> None:
    if head.content_type.partition(";")[0].strip().lower() != _JSON:
        message = f"Send the arguments as a JSON object, with Content-Type: {_JSON}"
        raise HttpRefusedError(415, message)
    check_encoding(head)

"""tools/call: check the arguments, ask the worker, pass on progress, render the answer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from opentelemetry import trace

from searchbus_bus import Bus
from searchbus_contracts import Actor, ErrorCode, Fault, ToolCall, ToolEvent, ToolReply, encode

from .audit import record_call
from .catalogue import ListedTool, View, visible
from .faults import error_result, internal_error, invalid_params
from .input_required import (
    ask_client,
    client_capabilities,
    dump_responses,
    require_capabilities,
)
from .lazy import LAZY, LazyTools
from .limits import Limiter
from .render import tool_result
from .telemetry import name_tool, record_tool

__all__ = ["Caller"]

log = logging.getLogger("searchbus.edge")
Context = ServerRequestContext[Any, Any]

MAX_ERRORS_SHOWN = 3
_MAX_MESSAGE_CHARS = 200


class Caller:
    """Calls tools over the bus.

    Args:
        timeout_cap_s: the most that a call may take, whatever its descriptor says.
        lazy: the edge's own tools.
        everything: the view of `/mcp`, which they work on.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        timeout_cap_s: float,
        lazy: LazyTools,
        everything: Callable[[], View],
        audit_arguments: bool = False,
        limiter: Limiter | None = None,
        costly: Limiter | None = None,
    ) -> None:
        self._bus = bus
        self._lazy = lazy
        self._everything = everything
        self._audit_arguments = audit_arguments
        self._limiter = limiter
        self._costly = costly
        self._timeout_cap_s = timeout_cap_s

    async def call(
        self, ctx: Context, view: View, actor: Actor, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer one tools/call and write it into the audit log; see `_call`."""
        started_s = time.perf_counter()
        outcome, size_bytes = "cancelled", 0
        try:
            result = await self._call(ctx, view, actor, params)
            outcome, size_bytes = _outcome(result)
            return result
        except MCPError as error:
            outcome = f"json-rpc {error.error.code}"
            raise
        finally:
            duration_s = time.perf_counter() - started_s
            listed = view.tools.get(params.name)
            if listed is not None:
                record_tool(listed.descriptor.toolset, listed.descriptor.name, outcome, duration_s)
            record_call(
                actor, params.name[:128], outcome=outcome, size_bytes=size_bytes,
                duration_s=duration_s,
                arguments=params.arguments if self._audit_arguments else None,
            )  # fmt: skip

    async def _admit(self, actor: Actor, listed: ListedTool) -> None:
        """Count the call against the caller's limits; raises Fault(rate_limited)."""
        if self._limiter is not None:
            await self._limiter.admit(actor.subject)
        descriptor = listed.descriptor
        if self._costly is not None and descriptor.costly:
            await self._costly.admit(f"{actor.subject}/{descriptor.toolset}.{descriptor.name}")

    async def _call(
        self, ctx: Context, view: View, actor: Actor, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer one tools/call.

        Raises:
            MCPError: -32602 for an unknown (or hidden) tool and for arguments outside its schema,
                -32603 for an internal error.
        """
        name = params.name
        listed = view.tools.get(name)
        if listed is None or not visible(actor, listed.descriptor):
            raise invalid_params(f"Unknown tool: {name[:64]}. tools/list shows those there are.")
        name_tool(name)
        given = unquoted(listed, params.arguments or {})
        check_arguments(listed, given)
        descriptor = listed.descriptor
        if descriptor.toolset == LAZY:
            view = self._everything()
            return await self._lazy.call(
                descriptor.name, view, actor, params,
                lambda inner: self.call(ctx, view, actor, inner),
            )  # fmt: skip
        capabilities = client_capabilities(ctx)
        require_capabilities(descriptor, capabilities)
        span = trace.get_current_span()
        span.set_attribute("searchbus.toolset", descriptor.toolset)
        try:
            await self._admit(actor, listed)
            async with _forwarded_events(ctx) as on_event:
                reply = await self._bus.request(
                    self._bus.subjects.tool(descriptor.toolset, descriptor.name),
                    ToolCall(
                        tool=descriptor.name,
                        arguments=msgspec.Raw(encode(given)),
                        input_responses=dump_responses(params),
                        state=params.request_state,
                        client_capabilities=capabilities,
                    ),
                    ToolReply,
                    service=listed.service,
                    timeout_s=min(descriptor.timeout_ms / 1000, self._timeout_cap_s),
                    actor=actor,
                    on_event=on_event,
                )
        except Fault as fault:
            span.set_attribute("error.type", fault.code)
            if fault.code == ErrorCode.INTERNAL:
                raise internal_error() from None
            return error_result(fault)
        if reply.input_required is not None:
            return ask_client(ctx, reply.input_required)
        return tool_result(listed, reply)


def _outcome(result: types.CallToolResult | types.InputRequiredResult) -> tuple[str, int]:
    if not isinstance(result, types.CallToolResult):
        return "input_required", 0
    size_bytes = sum(len(b.text) for b in result.content if isinstance(b, types.TextContent))
    if not result.is_error:
        return "ok", size_bytes
    found = result.structured_content
    error = found.get("error") if isinstance(found, dict) else None
    return str(error["code"]) if isinstance(error, dict) else "error", size_bytes


def unquoted(listed: ListedTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with arrays and objects that came as JSON in a string taken out of it.

    Models do that; where the schema wants an array or an object, a string has no other meaning.
    """
    properties = listed.descriptor.input_schema.get("properties")
    given = dict(arguments)
    for name, value in given.items():
        schema = properties.get(name) if isinstance(properties, dict) else None
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(value, str) and kind in ("array", "object"):
            try:
                inner = json.loads(value)
            except (ValueError, RecursionError):
                continue
            if isinstance(inner, list if kind == "array" else dict):
                given[name] = inner
    return given


def check_arguments(listed: ListedTool, arguments: Mapping[str, Any]) -> None:
    """Hold the arguments against the tool's schema; -32602 names each field and its range."""
    if listed.validator.is_valid(arguments):
        return
    lines = []
    for error in listed.validator.iter_errors(arguments):
        path = ".".join(str(part) for part in error.instance_path)
        message = error.message
        if len(message) > _MAX_MESSAGE_CHARS:  # it repeats the value
            message = "…" + message[-_MAX_MESSAGE_CHARS:]
        lines.append(f"{path}: {message}" if path else message)
        if len(lines) == MAX_ERRORS_SHOWN:
            break
    raise invalid_params(f"Invalid arguments for {listed.name}: {'; '.join(lines)}.")


@asynccontextmanager
async def _forwarded_events(ctx: Context) -> AsyncIterator[Any]:
    """A callback for events that sends them to the client, in order, before the answer."""
    queue: asyncio.Queue[ToolEvent | None] = asyncio.Queue(maxsize=1000)
    pump: asyncio.Task[None] | None = None

    async def forward() -> None:
        while (event := await queue.get()) is not None:
            try:
                await _send(ctx, event)
            except Exception:
                log.debug("an event could not be sent to the client", exc_info=True)

    def on_event(event: ToolEvent) -> None:
        nonlocal pump
        if pump is None:
            pump = asyncio.get_running_loop().create_task(forward())
        if not queue.full():  # a client that does not read loses progress, not the answer
            queue.put_nowait(event)

    try:
        yield on_event
    except BaseException:
        if pump is not None:
            pump.cancel()
        raise
    if pump is not None:
        await queue.put(None)
        await pump


async def _send(ctx: Context, event: ToolEvent) -> None:
    if event.kind == "progress":
        await ctx.session.report_progress(event.progress, event.total, event.message)
    else:
        # Deprecated in 2026-07-28, where it goes out only to a request that asked for it.
        data = event.data if event.data is not None else event.message
        await ctx.session.send_log_message(
            event.level,
            json.loads(json.dumps(data, default=str)),
            event.logger,
            related_request_id=ctx.request_id,
        )

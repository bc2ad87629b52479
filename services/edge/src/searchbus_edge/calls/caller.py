"""tools/call: check the arguments, send the request to the worker, render its reply."""

from __future__ import annotations

import time
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from opentelemetry import trace

from searchbus_bus import Bus
from searchbus_contracts import Actor, ErrorCode, Fault, ToolCall, ToolReply, encode

from ..lists.registry import Registry
from ..lists.view import ListedTool, View
from ..lists.visible import visible
from ..search.lazy import LAZY, LazyTools
from .arguments import check_arguments, parse_json_strings
from .audit import record_call
from .events import forwarded_events
from .faults import error_result, internal_error, invalid_params
from .input_required import (
    client_capabilities,
    dump_responses,
    request_input,
    require_capabilities,
)
from .limits import Limiter
from .render import tool_result
from .telemetry import name_tool, record_tool

__all__ = ["ToolCaller"]

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult


class ToolCaller:
    """Calls tools over the bus.

    Args:
        registry: its view of `/mcp` is what `lazy` works on.
        lazy: the edge's own tools.
        limiter: of all calls of one caller.
        costly: of one caller's calls to each tool that costs money.
        timeout_cap_s: the most that a call may take, whatever its descriptor says.
        audit_arguments: whether the audit log holds arguments.
    """

    def __init__(
        self,
        bus: Bus,
        registry: Registry,
        lazy: LazyTools,
        *,
        limiter: Limiter,
        costly: Limiter,
        timeout_cap_s: float,
        audit_arguments: bool = False,
    ) -> None:
        self._bus = bus
        self._registry = registry
        self._lazy = lazy
        self._limiter = limiter
        self._costly = costly
        self._timeout_cap_s = timeout_cap_s
        self._audit_arguments = audit_arguments

    async def call(
        self, ctx: Context, view: View, actor: Actor, params: types.CallToolRequestParams
    ) -> Result:
        """Serve one tools/call and record it in the audit log.

        Raises:
            MCPError: -32602 for an unknown (or hidden) tool and for arguments outside its schema,
                -32603 for an internal error.
        """
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

    async def _call(
        self, ctx: Context, view: View, actor: Actor, params: types.CallToolRequestParams
    ) -> Result:
        name = params.name
        listed = view.tools.get(name)
        if listed is None or not visible(actor, listed.descriptor):
            raise invalid_params(f"Unknown tool: {name[:64]}. tools/list shows those there are.")
        name_tool(name)
        arguments = parse_json_strings(listed, params.arguments or {})
        check_arguments(listed, arguments)
        descriptor = listed.descriptor
        if descriptor.toolset == LAZY:
            everything = self._registry.view(None)
            return await self._lazy.call(
                descriptor.name, everything, actor, params,
                lambda inner: self.call(ctx, everything, actor, inner),
            )  # fmt: skip
        capabilities = client_capabilities(ctx)
        require_capabilities(descriptor, capabilities)
        span = trace.get_current_span()
        span.set_attribute("searchbus.toolset", descriptor.toolset)
        try:
            await self._admit(actor, listed)
            async with forwarded_events(ctx) as on_event:
                reply = await self._bus.request(
                    self._bus.subjects.tool(descriptor.toolset, descriptor.name),
                    ToolCall(
                        tool=descriptor.name,
                        arguments=msgspec.Raw(encode(arguments)),
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
            return request_input(ctx, reply.input_required)
        return tool_result(listed, reply)

    async def _admit(self, actor: Actor, listed: ListedTool) -> None:
        """Count the call against the caller's limits; raises Fault(rate_limited)."""
        await self._limiter.admit(actor.subject)
        descriptor = listed.descriptor
        if descriptor.costly:
            await self._costly.admit(f"{actor.subject}/{descriptor.toolset}.{descriptor.name}")


def _outcome(result: Result) -> tuple[str, int]:
    """The outcome for the audit log, and the size of the text in bytes."""
    if not isinstance(result, types.CallToolResult):
        return "input_required", 0
    size_bytes = sum(len(b.text) for b in result.content if isinstance(b, types.TextContent))
    if not result.is_error:
        return "ok", size_bytes
    structured = result.structured_content
    error = structured.get("error") if isinstance(structured, dict) else None
    return str(error["code"]) if isinstance(error, dict) else "error", size_bytes

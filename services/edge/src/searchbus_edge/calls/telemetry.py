"""Spans and metrics of MCP messages (OpenTelemetry semantic conventions for MCP).

A client's trace context is taken from the message's `_meta` (SEP-414), else from the HTTP header. A
trusted context becomes the parent of our span. Any other is only linked, so that a stranger can
neither write into our traces nor decide what is sampled.

This replaces the SDK's own middleware, which takes any context as the parent, and writes error
messages, which repeat arguments, into spans.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import ValidationError

from searchbus_bus import SECONDS

__all__ = ["Tracing", "count_refused", "name_tool", "record_tool"]

_CLIENT = otel_context.create_key("searchbus-client-context")
_MAX_TEXT = 128
_MAX_TOOLS = 500
"""Tools with time series of their own; all others are counted together."""

_propagator = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("searchbus.edge")
_meter = metrics.get_meter("searchbus.edge")
_operations = _meter.create_histogram(
    "mcp.server.operation.duration",
    unit="s",
    description="MCP requests by method.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_tools = _meter.create_histogram(
    "searchbus.tool.duration",
    unit="s",
    description="Calls by toolset, tool and outcome: ok, or the code of the failure.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_refused = _meter.create_counter(
    "searchbus.http.refused",
    description="HTTP requests refused before an MCP message was read, by status.",
)
_known_tools: set[tuple[str, str]] = set()


class Tracing:
    """One server span per message.

    Args:
        trust: whether clients' trace context becomes the parent.
    """

    def __init__(self, *, trust: bool) -> None:
        self._trust = trust

    def attach(self, headers: Mapping[str, str]) -> Callable[[], None]:
        """Attach the trace context of an HTTP request; call the result to detach it."""
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        found = _propagator.extract(carrier, Context()) if carrier else Context()
        token = otel_context.attach(otel_context.set_value(_CLIENT, found, Context()))
        return lambda: otel_context.detach(token)

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: Any) -> Any:
        """The outermost middleware of the MCP server."""
        attributes: dict[str, Any] = {
            "mcp.method.name": ctx.method[:_MAX_TEXT],
            "mcp.protocol.version": ctx.protocol_version,
        }
        if ctx.request_id is not None:
            attributes["jsonrpc.request.id"] = str(ctx.request_id)[:_MAX_TEXT]
        parent, links = self._origin(ctx.meta)
        started_s = time.perf_counter()
        error: str | None = None
        with _tracer.start_as_current_span(
            ctx.method[:_MAX_TEXT],
            kind=SpanKind.SERVER,
            context=parent,
            links=links,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await call_next(ctx)
                if isinstance(result, types.CallToolResult) and result.is_error:
                    error = "tool_error"
                return result
            except MCPError as raised:
                error = str(raised.error.code)
                raise
            except ValidationError:
                error = str(types.INVALID_PARAMS)
                raise
            except BaseException as raised:
                error = type(raised).__name__
                raise
            finally:
                labels = {"mcp.method.name": _method(ctx.method)}
                if error is not None:
                    span.set_attribute("error.type", error)
                    span.set_status(StatusCode.ERROR)
                    labels["error.type"] = error
                _operations.record(time.perf_counter() - started_s, labels)

    def _origin(self, meta: Any) -> tuple[Context, list[Link]]:
        client = otel_context.get_value(_CLIENT)
        found = client if isinstance(client, Context) else otel_context.get_current()
        if isinstance(meta, Mapping) and isinstance(meta.get("traceparent"), str):
            carrier = {k: v for k, v in meta.items() if isinstance(v, str)}
            given = _propagator.extract(carrier, Context())
            if trace.get_current_span(given).get_span_context().is_valid:
                found = given
        if self._trust:
            return found, []
        remote = trace.get_current_span(found).get_span_context()
        return Context(), [Link(remote)] if remote.is_valid else []


def record_tool(toolset: str, tool: str, outcome: str, duration_s: float) -> None:
    """Record one call; `toolset` and `tool` come from the registry, never from the client."""
    key = (toolset, tool)
    if key not in _known_tools:
        if len(_known_tools) < _MAX_TOOLS:
            _known_tools.add(key)
        else:
            toolset, tool = "other", "other"
    _tools.record(duration_s, {"toolset": toolset, "tool": tool, "outcome": outcome})


def count_refused(status: int) -> None:
    """Count an HTTP request that was refused before an MCP message was read."""
    _refused.add(1, {"status": str(status)})


def name_tool(name: str) -> None:
    """Put a listed tool's name on the current message's span."""
    span = trace.get_current_span()
    span.update_name(f"tools/call {name}")
    span.set_attribute("gen_ai.operation.name", "execute_tool")
    span.set_attribute("gen_ai.tool.name", name)


_METHODS = frozenset(
    "initialize ping server/discover tools/list tools/call tools/search prompts/list prompts/get "
    "prompts/search resources/list resources/read resources/search resources/templates/list "
    "resources/subscribe resources/unsubscribe completion/complete logging/setLevel "
    "subscriptions/listen notifications/initialized notifications/cancelled".split()
)


def _method(name: str) -> str:
    return name if name in _METHODS else "other"

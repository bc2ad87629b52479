"""Spans and metrics of MCP messages (OpenTelemetry semantic conventions for MCP).

A client's trace context is taken from the message's `_meta` (SEP-414), else from the HTTP header. A
trusted context becomes the parent of our span. Any other is only linked, so that a stranger can
neither write into our traces nor decide what is sampled.

This replaces the SDK's own middleware, which takes any context as the parent, and writes error
messages, which repeat arguments, into spans.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, StatusCode

from searchbus_bus import SECONDS
from searchbus_bus.telemetry import extract

_NO_CONTEXT = Context()
_MAX_TEXT = 128

_meter = metrics.get_meter("searchbus.edge")
_operations = _meter.create_histogram(
    "mcp.server.operation.duration",
    unit="s",
    description="MCP requests by method.",
    explicit_bucket_boundaries_advisory=SECONDS,
)


@cache
def _tracer() -> trace.Tracer:
    # At the first span: one that is made before the process has its provider is a slower proxy.
    return trace.get_tracer("searchbus.edge")


class Tracing:
    """One server span per message; with `trust` the client's trace context is its parent."""

    def __init__(self, *, trust: bool) -> None:
        self._trust = trust

    async def middleware(self, ctx: ServerRequestContext[Any, Any], call_next: Any) -> Any:
        """The outermost middleware of the MCP server."""
        if getattr(ctx.request, "served", None) is not None:
            return await call_next(ctx)  # of a message that the fast way has a span for
        head = getattr(ctx.request, "head", None)
        with self.message(
            ctx.method,
            ctx.protocol_version,
            ctx.request_id,
            header=(head.traceparent, head.tracestate) if head is not None else ("", ""),
            meta=ctx.meta if isinstance(ctx.meta, Mapping) else {},
        ) as outcome:
            result = await call_next(ctx)
            failed = result.get("isError") if isinstance(result, dict) else None
            if failed is True or getattr(result, "is_error", False):
                outcome.error = "tool_error"
            return result

    def message(
        self,
        method: str,
        revision: str | None,
        request_id: Any,
        *,
        header: tuple[str, str] = ("", ""),
        meta: Mapping[str, Any],
    ) -> MessageSpan:
        """The span and duration of a message, as a context manager; `revision` None: plain HTTP,
        `header`: its traceparent and tracestate, `meta`: its `_meta`."""
        attributes: dict[str, Any] = {"mcp.method.name": method[:_MAX_TEXT]}
        if revision is not None:
            attributes["mcp.protocol.version"] = revision
        if request_id is not None:
            attributes["jsonrpc.request.id"] = str(request_id)[:_MAX_TEXT]
        parent, links = self._origin(header, meta)
        span = _tracer().start_span(
            method[:_MAX_TEXT],
            kind=SpanKind.SERVER,
            context=parent,
            links=links,
            attributes=attributes,
        )
        return MessageSpan(method, span, parent)

    def _origin(
        self, header: tuple[str, str], meta: Mapping[str, Any]
    ) -> tuple[Context, Sequence[Link]]:
        """The parent and the links of a span: the context in `_meta`, else in the header."""
        sent = meta.get("traceparent")
        if not sent and not header[0]:
            return _NO_CONTEXT, ()
        remote = _remote(sent, meta.get("tracestate")) or _remote(*header)
        if remote is None:
            return _NO_CONTEXT, ()
        if self._trust:
            return trace.set_span_in_context(NonRecordingSpan(remote), _NO_CONTEXT), ()
        return _NO_CONTEXT, (Link(remote),)


class MessageSpan:
    """The current span while a message is served; set `error` to the kind of its error.

    A message that takes no time to serve needs only `end`.
    """

    __slots__ = ("_method", "_parent", "_span", "_started_s", "_token", "error")

    def __init__(self, method: str, span: trace.Span, parent: Context) -> None:
        self.error: str | None = None
        self._method = method
        self._span = span
        self._parent = parent
        self._started_s = time.perf_counter()

    def __enter__(self) -> MessageSpan:
        context = trace.set_span_in_context(self._span, self._parent)
        self._token = otel_context.attach(context)
        return self

    def __exit__(self, kind: object, raised: BaseException | None, traceback: object) -> None:
        if raised is not None:
            self.error = type(raised).__name__  # not its text, which may repeat arguments
            if isinstance(raised, MCPError):
                self.error = str(raised.error.code)
        self.end()  # while the span is the current one: the duration's exemplar names it
        otel_context.detach(self._token)

    def end(self) -> None:
        """End the span and record its duration."""
        labels = {"mcp.method.name": self._method if self._method in _METHODS else "other"}
        if self.error is not None:
            self._span.set_attribute("error.type", self.error)
            if self.error.lstrip("-").isdigit():
                self._span.set_attribute("rpc.response.status_code", self.error)
            self._span.set_status(StatusCode.ERROR)
            labels["error.type"] = self.error
        self._span.end()
        _operations.record(time.perf_counter() - self._started_s, labels)


def _remote(traceparent: Any, tracestate: Any) -> SpanContext | None:
    """The span of a client; None where it sent none, or one that cannot be read."""
    if not traceparent or not isinstance(traceparent, str):
        return None
    carrier = {"traceparent": traceparent}
    if isinstance(tracestate, str) and tracestate:
        carrier["tracestate"] = tracestate
    found = trace.get_current_span(extract(carrier)).get_span_context()
    return found if found.is_valid else None


_METHODS = frozenset(
    "initialize ping server/discover tools/list tools/call tools/search prompts/list prompts/get "
    "prompts/search resources/list resources/read resources/search resources/templates/list "
    "resources/subscribe resources/unsubscribe completion/complete logging/setLevel "
    "subscriptions/listen notifications/initialized notifications/cancelled".split()
)

"""Records calls: their metric and the audit log, never their results.

One line per call on the logger `searchbus.audit`: who called which tool, when, with which outcome;
its measurements are fields of the JSON log. The arguments are added only with the setting
AUDIT_ARGUMENTS. A thread writes the lines, so that no request waits for the log's file.
"""

from __future__ import annotations

import logging
import time
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from opentelemetry import metrics, trace

from searchbus_bus import SECONDS, Bus, Request
from searchbus_bus.telemetry import traceparent
from searchbus_contracts import Actor, Fault, encode
from searchbus_runtime.logs import LineQueue, log_lines, timestamp

from ..catalog.view import ListedTool
from .budgets import Budgets, tokens_of
from .limits import Limiter

T = TypeVar("T")
log = logging.getLogger("searchbus.audit")
_WRITE_EVERY_S = 0.2
_MAX_TOOLS = 500
"""Tools with time series of their own; all others are counted together."""
_encoder = msgspec.json.Encoder(enc_hook=str)
_meter = metrics.get_meter("searchbus.edge")
_tools = _meter.create_histogram(
    "searchbus.tool.duration",
    unit="s",
    description="Calls by toolset, tool and outcome: ok, or the code of the failure.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_tokens = _meter.create_counter(
    "searchbus.tool.tokens", description="Tokens of answers by toolset, as estimated of their size."
)
_credits = _meter.create_counter(
    "searchbus.tool.credits", description="Credits that paid providers took for calls, by toolset."
)
_dropped = _meter.create_counter(
    "searchbus.audit.dropped",
    description="Lines of the audit log that were lost because its queue was full.",
)


_known_tools: set[tuple[str, str]] = set()


class _Line(Struct):
    """One call, with a text for people, and the trace and span that it belongs to."""

    timestamp: str
    subject: str
    tool: str
    outcome: str
    duration_ms: float
    bytes: int
    tokens: int
    credits: float
    event: str
    trace_id: str | UnsetType = UNSET
    span_id: str | UnsetType = UNSET
    arguments: Any = UNSET
    audit: bool = True


class AuditLog:
    """Queues lines and writes them in a thread; above `max_queued` they are dropped, counted."""

    def __init__(self, *, arguments: bool = False, max_queued: int = 100_000) -> None:
        _dropped.add(0)
        self._arguments = arguments
        self._lines = LineQueue(
            lambda lines: log_lines(log, lines),
            name="audit",
            every_s=_WRITE_EVERY_S,
            max_queued=max_queued,
        )

    def record(
        self,
        actor: Actor,
        tool: str,
        listed: ListedTool | None,
        *,
        outcome: str,
        duration_s: float,
        size_bytes: int,
        tokens: int,
        credits: float = 0.0,
        span: trace.Span = trace.INVALID_SPAN,
        arguments: Any = None,
    ) -> None:
        """Measure one call and queue its line.

        Args:
            listed: the tool of that name; None where there is none, which is not measured.
            outcome: ok, or the code of the failure.
            size_bytes: of the result's text.
            tokens: the same in tokens, about.
            credits: that paid providers took for it.
            span: of the call.
        """
        if listed is not None:
            descriptor = listed.descriptor
            _measure(descriptor.toolset, descriptor.name, outcome, duration_s)
            _tokens.add(tokens, {"toolset": descriptor.toolset})
            _credits.add(credits, {"toolset": descriptor.toolset})
        subject = actor.subject
        line = _Line(
            timestamp(time.time()), subject, tool, outcome, round(duration_s * 1000, 1), size_bytes,
            tokens, credits, f"{subject} called {tool}: {outcome}",
        )  # fmt: skip
        if span.get_span_context().is_valid:
            ids = traceparent(span)
            line.trace_id, line.span_id = ids[3:35], ids[36:52]
        if self._arguments and arguments is not None:
            line.arguments = arguments
        if not self._lines.add(_encoder.encode(line)):
            _dropped.add(1)

    def flush(self) -> None:
        """Write every queued line now."""
        self._lines.flush()

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._lines.close()


class CountedReads:
    """Asks services for callers beside the tools: for documents, prompts, resources, lists of these
    and completions, by which a caller could read what tools give. Each counts as a call for limits,
    budgets and the audit log.

    Args:
        limiter: of the calls of one caller.
        budgets: of a day; None: there are none.
    """

    def __init__(
        self, bus: Bus, limiter: Limiter, audit: AuditLog, budgets: Budgets | None
    ) -> None:
        self._bus = bus
        self._limiter = limiter
        self._audit = audit
        self._budgets = budgets

    async def __call__(self, what: str, actor: Actor, request: Request[T], arguments: Any) -> T:
        """Send a request, which the log calls `what`; raises Fault."""
        started_s = time.perf_counter()
        outcome, size_bytes = "cancelled", 0
        try:
            await self._limiter.admit(actor.subject)
            if self._budgets is not None:
                await self._budgets.admit(actor.subject, costly=False)
            reply = await self._bus.send(msgspec.structs.replace(request, actor=actor))
            outcome, size_bytes = "ok", len(encode(reply))
            return reply
        except Fault as fault:
            outcome = fault.code
            raise
        finally:
            tokens = tokens_of(size_bytes)
            if self._budgets is not None:
                self._budgets.spend(actor.subject, tokens=tokens, credits=0.0)
            self._audit.record(
                actor, what, None, outcome=outcome, size_bytes=size_bytes, tokens=tokens,
                duration_s=time.perf_counter() - started_s, span=trace.get_current_span(),
                arguments=arguments,
            )  # fmt: skip


def _measure(toolset: str, tool: str, outcome: str, duration_s: float) -> None:
    """Record one call; `toolset` and `tool` come from the registry, never from the client."""
    key = (toolset, tool)
    if key not in _known_tools:
        if len(_known_tools) < _MAX_TOOLS:
            _known_tools.add(key)
        else:
            toolset, tool = "other", "other"
    _tools.record(duration_s, {"toolset": toolset, "tool": tool, "outcome": outcome})

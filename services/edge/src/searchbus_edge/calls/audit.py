"""The audit log: who called which tool, when, with which outcome. Never arguments or results.

One line per call on the logger `searchbus.audit`; its measurements are fields of the JSON log. The
arguments are added only with the setting AUDIT_ARGUMENTS.

The lines are written by a thread, so that no request waits for formatting or for the log's file.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any

from opentelemetry import metrics, trace

from searchbus_contracts import Actor
from searchbus_runtime.logs import log_lines

__all__ = ["AuditLog"]

log = logging.getLogger("searchbus.audit")
_WRITE_EVERY_S = 0.1
_AT_ONCE = 1000
_dropped = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.audit.dropped",
    description="Lines of the audit log that were lost because its queue was full.",
)


_Call = tuple[float, trace.SpanContext, Actor, str, str, float, int, Any]
"""When, where in which trace, by whom, which tool, outcome, seconds, bytes, arguments."""


class AuditLog:
    """Queues lines and writes them in a thread of its own.

    Args:
        arguments: whether a line holds the arguments of its call.
        max_queued: further lines are dropped and counted.
    """

    def __init__(self, *, arguments: bool = False, max_queued: int = 100_000) -> None:
        self._arguments = arguments
        self._max_queued = max_queued
        self._queue: deque[_Call] = deque()
        self._writing = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def record(
        self,
        actor: Actor,
        tool: str,
        *,
        outcome: str,
        duration_s: float,
        size_bytes: int,
        arguments: Any = None,
    ) -> None:
        """Queue one line.

        Args:
            outcome: ok, or the code of the failure.
            size_bytes: of the result's text.
        """
        if len(self._queue) >= self._max_queued:
            _dropped.add(1)
            return
        span = trace.get_current_span().get_span_context()
        kept = arguments if self._arguments else None
        self._queue.append((time.time(), span, actor, tool, outcome, duration_s, size_bytes, kept))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Write every queued line now."""
        with self._writing:
            while self._queue:
                count = min(len(self._queue), _AT_ONCE)
                log_lines(log, [_line(self._queue.popleft()) for _ in range(count)])

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _run(self) -> None:
        while not self._closed.wait(_WRITE_EVERY_S):
            self.flush()


def _line(call: _Call) -> dict[str, Any]:
    """The fields of a line, with a text for people, and the trace and span that it belongs to."""
    time_s, span, actor, tool, outcome, duration_s, size_bytes, arguments = call
    fields: dict[str, Any] = {
        "time_s": time_s,
        "audit": True,
        "subject": actor.subject,
        "tool": tool,
        "outcome": outcome,
        "duration_ms": round(duration_s * 1000, 1),
        "bytes": size_bytes,
        "event": f"{actor.subject} called {tool}: {outcome}",
    }
    if arguments is not None:
        fields["arguments"] = arguments
    if span.is_valid:
        fields["trace_id"] = trace.format_trace_id(span.trace_id)
        fields["span_id"] = trace.format_span_id(span.span_id)
    return fields

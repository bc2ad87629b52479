"""The audit log: who called which tool, when, with which outcome. Never arguments or results.

One line per call on the logger `searchbus.audit`; its measurements are fields of the JSON log. The
arguments are added only with the setting AUDIT_ARGUMENTS.

The lines are written by a thread, so that no request waits for formatting or for the log's file.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from typing import Any

from opentelemetry import metrics

from searchbus_contracts import Actor

__all__ = ["AuditLog"]

log = logging.getLogger("searchbus.audit")
_WRITE_EVERY_S = 0.1
_dropped = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.audit.dropped",
    description="Lines of the audit log that were lost because its queue was full.",
)


class AuditLog:
    """Queues lines and writes them in a thread of its own.

    Args:
        arguments: whether a line holds the arguments of its call.
        max_queued: further lines are dropped and counted.
    """

    def __init__(self, *, arguments: bool = False, max_queued: int = 100_000) -> None:
        self._arguments = arguments
        self._max_queued = max_queued
        self._queue: deque[tuple[contextvars.Context, dict[str, Any]]] = deque()
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
        fields: dict[str, Any] = {
            "audit": True,
            "subject": actor.subject,
            "tool": tool,
            "outcome": outcome,
            "duration_ms": round(duration_s * 1000, 1),
            "bytes": size_bytes,
        }
        if self._arguments and arguments is not None:
            fields["arguments"] = arguments
        # The context holds the trace that the line belongs to.
        self._queue.append((contextvars.copy_context(), fields))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Write every queued line now."""
        with self._writing:
            while self._queue:
                context, fields = self._queue.popleft()
                names = (fields["subject"], fields["tool"], fields["outcome"])
                context.run(_write, names, fields)

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _run(self) -> None:
        while not self._closed.wait(_WRITE_EVERY_S):
            self.flush()


def _write(names: tuple[str, str, str], fields: dict[str, Any]) -> None:
    # Without log.info's look at the stack, which would always find this line.
    if log.isEnabledFor(logging.INFO):
        log.handle(
            log.makeRecord(
                log.name, logging.INFO, __file__, 0, "%s called %s: %s", names, None, extra=fields
            )
        )

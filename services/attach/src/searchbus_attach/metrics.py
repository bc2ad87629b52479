"""Metrics of attached servers, labelled with the server's name in the file."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from opentelemetry import metrics

from searchbus_bus.telemetry import SECONDS
from searchbus_contracts import ErrorCode, Fault

meter = metrics.get_meter("searchbus.attach")
_calls = meter.create_histogram(
    "searchbus.attach.call.duration",
    unit="s",
    description="Calls of attached servers' tools, by server and code.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
Counted = Literal[
    "restarts", "refused", "changes", "mismatches", "dropped", "handovers", "session.events",
    "file_faults", "tokens", "logins", "filtered",
]  # fmt: skip
_DESCRIPTIONS = {
    "searchbus.attach.restarts": "Sessions with attached servers that were lost.",
    "searchbus.attach.refused": "Tools of attached servers that cannot be listed.",
    "searchbus.attach.changes": "Definitions that differ from the approved ones, by policy.",
    "searchbus.attach.mismatches": "Answers that do not fit their tool's own output schema.",
    "searchbus.attach.dropped": "Messages beyond a server's budget, by server and kind.",
    "searchbus.attach.handovers": "Calls sent on to another worker, by server and code.",
    "searchbus.attach.session.events": "Sessions taken over, lost, or opened without a lease.",
    "searchbus.attach.file_faults": "Versions of the file of attached servers that cannot be used.",
    "searchbus.attach.tokens": "Requests for tokens, by type of auth and outcome.",
    "searchbus.attach.filtered": "Calls in which a filter of a view found something, by side.",
    "searchbus.attach.logins": "Sign-ins to attached servers, by outcome.",
}
_counters = {
    name: meter.create_counter(name, description=description)
    for name, description in _DESCRIPTIONS.items()
}


def count(name: Counted, number: int = 1, **labels: str) -> None:
    """Add to the counter `searchbus.attach.<name>`; labels are `server` and what tells it apart."""
    _counters[f"searchbus.attach.{name}"].add(number, labels)


class MeasuredCall:
    """Records a call and its duration; `failures_only` for what comes before a call, which another
    worker may do. A generator as a context manager takes twice the time."""

    __slots__ = ("_failures_only", "_server", "_started_s")

    def __init__(self, server: str, *, failures_only: bool = False) -> None:
        self._server = server
        self._failures_only = failures_only

    def __enter__(self) -> None:
        self._started_s = time.perf_counter()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        code = "ok"
        if isinstance(error, Fault):
            code = error.code
        elif error is not None:
            cancelled = isinstance(error, asyncio.CancelledError)
            code = "cancelled" if cancelled else ErrorCode.INTERNAL.value
        if error is not None or not self._failures_only:
            seconds = time.perf_counter() - self._started_s
            _calls.record(seconds, {"server": self._server, "code": code})

"""Metrics of attached servers, labelled with the server's name in the file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def measured_call(server: str, *, failures_only: bool = False) -> Iterator[None]:
    """Record a call and its duration; `failures_only` for what comes before a call, which another
    worker may do."""
    started_s, code = time.perf_counter(), "ok"
    try:
        yield
    except Fault as fault:
        code = fault.code
        raise
    except asyncio.CancelledError:
        code = "cancelled"
        raise
    except Exception:
        code = ErrorCode.INTERNAL.value
        raise
    finally:
        if code != "ok" or not failures_only:
            _calls.record(time.perf_counter() - started_s, {"server": server, "code": code})

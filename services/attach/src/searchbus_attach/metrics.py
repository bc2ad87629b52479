"""Metrics of attached servers, labelled with the server's name in the file."""

from __future__ import annotations

from opentelemetry import metrics

from searchbus_bus.metrics import SECONDS

__all__ = [
    "count_change",
    "count_file_fault",
    "count_mismatch",
    "count_refused",
    "count_restart",
    "meter",
    "record_call",
]

meter = metrics.get_meter("searchbus.attach")
_calls = meter.create_histogram(
    "searchbus.attach.call.duration",
    unit="s",
    description="Calls of attached servers' tools, by server and code.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_restarts = meter.create_counter(
    "searchbus.attach.restarts", description="Sessions with attached servers that were lost."
)
_refused = meter.create_counter(
    "searchbus.attach.refused", description="Tools of attached servers that cannot be listed."
)
_changes = meter.create_counter(
    "searchbus.attach.changes",
    description="Definitions of attached servers that differ from the approved ones, by policy.",
)
_mismatches = meter.create_counter(
    "searchbus.attach.mismatches",
    description="Answers of attached servers that do not fit their own output schema.",
)
_file_faults = meter.create_counter(
    "searchbus.attach.file_faults",
    description="Versions of the file of attached servers that cannot be used.",
)


def record_call(seconds: float, server: str, code: str) -> None:
    """Count one call and its duration."""
    _calls.record(seconds, {"server": server, "code": code})


def count_restart(server: str) -> None:
    """Count a session that was lost."""
    _restarts.add(1, {"server": server})


def count_refused(server: str, number: int) -> None:
    """Count tools that cannot be listed, once a list."""
    _refused.add(number, {"server": server})


def count_change(server: str, policy: str) -> None:
    """Count a definition that differs from the approved one, once each."""
    _changes.add(1, {"server": server, "policy": policy})


def count_mismatch(server: str) -> None:
    """Count an answer that does not fit its schema."""
    _mismatches.add(1, {"server": server})


def count_file_fault() -> None:
    """Count a version of the file that cannot be used."""
    _file_faults.add(1)

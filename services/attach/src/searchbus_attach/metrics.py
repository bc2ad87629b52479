"""Metrics of attached servers, labelled with the server's name in the file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import metrics

from searchbus_bus.telemetry import SECONDS
from searchbus_contracts import ErrorCode, Fault

__all__ = [
    "count_change",
    "count_dropped",
    "count_file_fault",
    "count_handover",
    "count_login",
    "count_mismatch",
    "count_refused",
    "count_restart",
    "count_session",
    "count_token",
    "measured_call",
    "meter",
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
_dropped = meter.create_counter(
    "searchbus.attach.dropped",
    description="Messages of attached servers beyond their budget, by server and kind.",
)
_handovers = meter.create_counter(
    "searchbus.attach.handovers",
    description="Calls sent on to the worker that has the caller's session, by server and code.",
)
_sessions = meter.create_counter(
    "searchbus.attach.session.events",
    description="Sessions of callers that were taken over, lost, or opened without a lease.",
)
_file_faults = meter.create_counter(
    "searchbus.attach.file_faults",
    description="Versions of the file of attached servers that cannot be used.",
)
_tokens = meter.create_counter(
    "searchbus.attach.tokens",
    description="Requests for tokens of attached servers, by type of auth and outcome.",
)
_logins = meter.create_counter(
    "searchbus.attach.logins", description="Sign-ins to attached servers, by outcome."
)


@contextmanager
def measured_call(server: str, *, failures_only: bool = False) -> Iterator[None]:
    """Record a call and its duration.

    Args:
        failures_only: for what comes before a call, which another worker may do.
    """
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


def count_handover(server: str, code: str) -> None:
    """Count a call that another worker did, which has the caller's session."""
    _handovers.add(1, {"server": server, "code": code})


def count_session(server: str, event: str) -> None:
    """Count an event of a caller's session: `taken_over`, `lost` or `without_lease`."""
    _sessions.add(1, {"server": server, "event": event})


def count_restart(server: str) -> None:
    """Count a session that was lost."""
    _restarts.add(1, {"server": server})


def count_refused(server: str, number: int) -> None:
    """Count tools that cannot be listed, once a list."""
    _refused.add(number, {"server": server})


def count_dropped(server: str, kind: str) -> None:
    """Count a message that is dropped: `answer`, `event` or `log`."""
    _dropped.add(1, {"server": server, "kind": kind})


def count_change(server: str, policy: str) -> None:
    """Count a definition that differs from the approved one, once each."""
    _changes.add(1, {"server": server, "policy": policy})


def count_mismatch(server: str) -> None:
    """Count an answer that does not fit its schema."""
    _mismatches.add(1, {"server": server})


def count_file_fault() -> None:
    """Count a version of the file that cannot be used."""
    _file_faults.add(1)


def count_token(server: str, kind: str, outcome: str) -> None:
    """Count a request for a token: `ok`, `login_required` or `failed`."""
    _tokens.add(1, {"server": server, "type": kind, "outcome": outcome})


def count_login(server: str, outcome: str) -> None:
    """Count a sign-in: `ok` or `failed`."""
    _logins.add(1, {"server": server, "outcome": outcome})

"""The audit log: one line per call, without what was said."""

from __future__ import annotations

import logging

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from searchbus_contracts import Actor
from searchbus_edge.calls.audit import AuditLog
from searchbus_testing import eventually

ALICE = Actor(subject="alice", roles=())


@pytest.fixture
def lines(caplog):
    """Collects the records of the audit log."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append
    caplog.set_level(logging.INFO, "searchbus.audit")
    logger = logging.getLogger("searchbus.audit")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def record(audit: AuditLog, tool: str = "search", **options) -> None:
    audit.record(ALICE, tool, outcome="ok", duration_s=0.01234, size_bytes=7, **options)


def test_line_has_caller_tool_and_measurements(lines):
    """As fields of the record."""
    audit = AuditLog()
    record(audit)
    audit.close()
    (line,) = lines
    assert (line.name, line.getMessage()) == ("searchbus.audit", "alice called search: ok")
    assert (line.subject, line.tool, line.outcome) == ("alice", "search", "ok")
    assert (line.duration_ms, line.bytes, line.audit) == (12.3, 7, True)
    assert not hasattr(line, "arguments")


@pytest.mark.parametrize("wanted", [True, False])
def test_arguments_are_added_only_by_the_setting(lines, wanted):
    """AUDIT_ARGUMENTS."""
    audit = AuditLog(arguments=wanted)
    record(audit, arguments={"q": "secret"})
    audit.close()
    assert hasattr(lines[0], "arguments") is wanted


def test_lines_are_written_by_a_thread_in_order(lines):
    """No request waits for them."""
    audit = AuditLog()
    for number in range(5):
        record(audit, f"tool{number}")
    wanted = [f"tool{number}" for number in range(5)]
    eventually(lambda: [line.tool for line in lines if line.tool in wanted] == wanted)
    assert {line.threadName for line in lines} == {"audit"}
    audit.close()


def test_full_queue_drops_lines(lines):
    """And writes those before."""
    audit = AuditLog(max_queued=2)
    audit._thread = object()  # nothing is written until flush
    for number in range(4):
        record(audit, f"tool{number}")
    audit.flush()
    assert [line.tool for line in lines] == ["tool0", "tool1"]


def test_line_belongs_to_the_trace_of_its_call(caplog):
    """Though another thread writes it."""
    seen = []

    class Handler(logging.Handler):
        def emit(self, record):
            seen.append(trace.get_current_span().get_span_context().trace_id)

    logger, handler, audit = logging.getLogger("searchbus.audit"), Handler(), AuditLog()
    caplog.set_level(logging.INFO, "searchbus.audit")
    logger.addHandler(handler)
    try:
        context = SpanContext(77, 5, False, TraceFlags(1))
        with trace.use_span(NonRecordingSpan(context)):
            record(audit)
        audit.close()
    finally:
        logger.removeHandler(handler)
    assert seen == [77]

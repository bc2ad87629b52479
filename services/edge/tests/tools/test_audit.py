"""The audit log: one line per call, without what was said."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from searchbus_contracts import Actor
from searchbus_edge.tools import audit as module
from searchbus_edge.tools.audit import AuditLog
from searchbus_testing import eventually

ALICE = Actor(subject="alice", roles=())


@pytest.fixture
def lines(caplog):
    """Collects the lines of the audit log, each with the thread that wrote it."""
    found: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.extend(
        {**json.loads(line), "thread": record.threadName} for line in record.lines
    )
    caplog.set_level(logging.INFO, "searchbus.audit")
    logger = logging.getLogger("searchbus.audit")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def record(audit: AuditLog, tool: str = "search", **options) -> None:
    audit.record(
        ALICE, tool, None, outcome="ok", duration_s=0.01234, size_bytes=7, tokens=2, **options
    )


def test_line_has_caller_tool_and_measurements(lines):
    """As fields of the record."""
    audit = AuditLog()
    record(audit)
    audit.close()
    (line,) = lines
    assert line["event"] == "alice called search: ok"
    assert (line["subject"], line["tool"], line["outcome"]) == ("alice", "search", "ok")
    assert (line["duration_ms"], line["bytes"], line["audit"]) == (12.3, 7, True)
    assert "arguments" not in line


@pytest.mark.parametrize("wanted", [True, False])
def test_arguments_are_added_only_by_the_setting(lines, wanted):
    """AUDIT_ARGUMENTS."""
    audit = AuditLog(arguments=wanted)
    record(audit, arguments={"q": "secret"})
    audit.close()
    assert ("arguments" in lines[0]) is wanted


def test_lines_are_written_by_a_thread_in_order(lines):
    """No request waits for them."""
    audit = AuditLog()
    for number in range(5):
        record(audit, f"tool{number}")
    wanted = [f"tool{number}" for number in range(5)]
    eventually(lambda: [line["tool"] for line in lines] == wanted)
    assert {line["thread"] for line in lines} == {"audit"}
    audit.close()


def test_full_queue_drops_lines(lines, monkeypatch):
    """And writes those before."""
    monkeypatch.setattr("searchbus_edge.tools.audit._WRITE_EVERY_S", 3600)  # until flush
    audit = AuditLog(max_queued=2)
    for number in range(4):
        record(audit, f"tool{number}")
    audit.flush()
    assert [line["tool"] for line in lines] == ["tool0", "tool1"]


def test_line_belongs_to_the_trace_of_its_call(lines):
    """Though another thread writes it."""
    audit = AuditLog()
    record(audit, span=NonRecordingSpan(SpanContext(77, 5, False, TraceFlags(1))))
    record(audit)
    audit.close()
    assert (int(lines[0]["trace_id"], 16), int(lines[0]["span_id"], 16)) == (77, 5)
    assert "trace_id" not in lines[1]


def test_many_lines_are_written_at_once(caplog, lines, monkeypatch):
    """A record of the log for each would cost more than the call itself does here."""
    monkeypatch.setattr("searchbus_edge.tools.audit._WRITE_EVERY_S", 3600)  # until flush
    audit = AuditLog()
    for _ in range(1500):
        record(audit)
    audit.flush()
    assert len(lines) == 1500
    assert len(caplog.records) == 2


def test_figures_of_tools_have_an_end(monkeypatch, make_tool):
    """Thousands of tools do not make thousands of time series."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("test")
    monkeypatch.setattr(module, "_tools", meter.create_histogram("x"))
    monkeypatch.setattr(module, "_known_tools", set())
    monkeypatch.setattr(module, "_MAX_TOOLS", 3)
    log = AuditLog()
    for number in range(10):
        listed = make_tool(f"tool{number}", toolset="many")
        log.record(ALICE, listed.name, listed, outcome="ok", duration_s=0.1, size_bytes=7, tokens=2)
    log.close()
    data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0].data
    counts = {p.attributes["tool"]: p.count for p in data.data_points}
    assert counts == {"tool0": 1, "tool1": 1, "tool2": 1, "other": 7}

"""The audit log: one line per call, without what was said."""

from __future__ import annotations

import logging

from searchbus_contracts import Actor
from searchbus_edge.calls.audit import record_call

ALICE = Actor(subject="alice", roles=())


def test_line_has_caller_tool_and_measurements(caplog):
    """As fields of the record."""
    with caplog.at_level(logging.INFO, "searchbus.audit"):
        record_call(ALICE, "search", outcome="ok", duration_s=0.01234, size_bytes=7)
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("searchbus.audit", "alice called search: ok")
    assert (record.subject, record.tool, record.outcome) == ("alice", "search", "ok")
    assert (record.duration_ms, record.bytes, record.audit) == (12.3, 7, True)
    assert not hasattr(record, "arguments")


def test_arguments_are_added_only_when_passed(caplog):
    """By the setting AUDIT_ARGUMENTS."""
    with caplog.at_level(logging.INFO, "searchbus.audit"):
        record_call(ALICE, "t", outcome="ok", duration_s=0, size_bytes=0, arguments={"q": "secret"})
    assert caplog.records[0].arguments == {"q": "secret"}

"""Spans of requests to upstreams."""

from __future__ import annotations

import pytest

from searchbus_upstream import upstream_span


def test_outcome_is_the_status_or_the_failure():
    """A request that was neither answered nor failed was cancelled."""
    with upstream_span("pages", "GET", "a.example.com") as answered:
        answered.replied(503)
    with upstream_span("pages", "GET", "a.example.com") as failed:
        failed.failed("dns")
    with upstream_span("pages", "GET", "a.example.com") as cancelled:
        pass
    assert [s.outcome for s in (answered, failed, cancelled)] == ["503", "dns", "cancelled"]


def test_errors_leave_the_span_unchanged():
    """They are recorded by kind only: their text may hold a URL."""
    with pytest.raises(ValueError, match="secret"), upstream_span("pages", "GET", "") as span:
        raise ValueError("secret")
    assert span.outcome == "cancelled"

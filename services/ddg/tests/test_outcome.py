"""Outcomes of requests."""

from __future__ import annotations

from searchbus_ddg.outcome import REFUSALS, DuckDuckGoError, Outcome


def test_refusals_concern_the_address():
    """Other failures do not start a cooldown."""
    assert {str(outcome) for outcome in REFUSALS} == {
        "challenge", "blank_page", "rate_limited", "query_refused",
    }  # fmt: skip


def test_error_names_outcome_and_detail():
    """For the log."""
    error = DuckDuckGoError(Outcome.RATE_LIMITED, "it limits this address (HTTP 429)", 7.0)
    assert str(error) == "rate_limited: it limits this address (HTTP 429)"
    assert (error.outcome, error.retry_after_s) == (Outcome.RATE_LIMITED, 7.0)

"""Failures that the providers have in common."""

from __future__ import annotations

import json

import pytest

from searchbus_upstream import Reply
from searchbus_web.providers.faults import key_refused, limited, reason_in, unexpected_status


def test_refused_key_is_the_operators_to_mend():
    """It is not retried; the setting is named."""
    failure = key_refused("Tavily", "SEARCHBUS_TAVILY_API_KEYS").failure
    assert (failure.code, failure.retryable) == ("upstream_failed", False)
    assert "SEARCHBUS_TAVILY_API_KEYS" in failure.message


def test_limit_has_the_wait_of_the_reply():
    """Or a default where the reply has none."""
    failure = limited("Tavily", Reply(429, b"", {"retry-after": "30"})).failure
    assert (failure.code, failure.retry_after_ms) == ("upstream_limited", 30_000)
    assert limited("X", Reply(429, b""), default_s=5.0).failure.retry_after_ms == 5000


@pytest.mark.parametrize("status", [408, 500, 503])
def test_failure_of_the_server_may_be_retried(status):
    """The message names the status."""
    failure = unexpected_status("Tavily", Reply(status, b""), "SEARCHBUS_TAVILY_URL").failure
    assert (failure.code, failure.retryable) == ("upstream_failed", True)
    assert f"HTTP {status}" in failure.message
    assert "Try again" in failure.message


@pytest.mark.parametrize("status", [302, 404, 405, 410])
def test_wrong_address_is_the_operators_to_mend(status):
    """The same request would fail again: the message says what to do instead."""
    failure = unexpected_status("Tavily", Reply(status, b""), "SEARCHBUS_TAVILY_URL").failure
    assert (failure.code, failure.retryable) == ("upstream_failed", False)
    assert f"HTTP {status}" in failure.message
    assert "SEARCHBUS_TAVILY_URL" in failure.message
    assert "another search tool" in failure.message
    assert "Try again" not in failure.message


def test_words_of_a_provider_are_one_line_of_plain_text():
    """They are read by a model, like a title."""
    told = "Quota \u202e exceeded\n\n\x1b[31m now" + " x" * 1000
    reason = reason_in(json.dumps({"detail": {"error": told}}).encode())
    assert reason.startswith("Quota exceeded")
    assert "\n" not in reason
    assert "\x1b" not in reason
    assert len(reason) <= 501

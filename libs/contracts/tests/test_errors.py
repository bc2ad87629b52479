"""Typed failures: which are retryable, and what travels."""

from __future__ import annotations

import pytest

from searchbus_contracts import RETRYABLE, ErrorCode, Failure, Fault, decode, encode


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_code_decides_whether_the_failure_is_retryable(code):
    """Unless the fault says otherwise."""
    assert Fault(code, "m").failure.retryable is (code in RETRYABLE)
    assert Fault(code, "m", retryable=True).failure.retryable
    assert not Fault(code, "m", retryable=False).failure.retryable


def test_errors_of_the_caller_are_terminal():
    """Sending the same request again cannot succeed."""
    callers = {"invalid_argument", "invalid_query", "forbidden", "not_found", "cancelled"}
    assert not callers & RETRYABLE


def test_the_text_of_a_fault_is_code_and_message():
    """For logs."""
    assert str(Fault(ErrorCode.NOT_FOUND, "No document.")) == "not_found: No document."


def test_a_failure_survives_the_wire():
    """Fault → Failure → bytes → Failure → Fault."""
    fault = Fault(ErrorCode.OVERLOADED, "Busy.", retry_after_ms=200)
    received = Fault.of(decode(encode(fault.failure), Failure))
    assert received.failure == fault.failure
    assert received.code == "overloaded"


def test_a_code_of_a_newer_peer_is_terminal():
    """An unknown code decodes, and is not retried."""
    failure = decode(b'{"code": "melted", "message": "m"}', Failure)
    assert (failure.code, failure.retryable) == ("melted", False)
    assert not Fault("melted", "m").failure.retryable


def test_the_code_is_a_plain_string():
    """JSON and headers hold its value."""
    assert encode(Fault(ErrorCode.INTERNAL, "m").failure) == b'{"code":"internal","message":"m"}'


def test_a_negative_delay_is_refused():
    """A peer cannot make a caller wait for a negative time."""
    with pytest.raises(Fault, match="retry_after_ms"):
        decode(b'{"code": "overloaded", "message": "m", "retry_after_ms": -1}', Failure)

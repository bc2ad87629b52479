"""Typed failures as MCP clients receive them."""

from __future__ import annotations

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.tools.faults import (
    failed_reply,
    internal_error,
    invalid_params,
    raise_for,
    shown_error,
)


def test_failed_call_has_code_in_text_and_structure():
    """So that models and hosts both can read it."""
    result = failed_reply(Fault(ErrorCode.RATE_LIMITED, "Wait.", retry_after_ms=5))
    assert result.is_error
    assert result.content[0].text == "rate_limited: Wait."
    assert result.structured["error"] == {
        "code": "rate_limited", "message": "Wait.", "retryable": True, "retry_after_ms": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.INVALID_ARGUMENT, -32602),
        (ErrorCode.INVALID_QUERY, -32602),
        (ErrorCode.NOT_FOUND, -32602),
        (ErrorCode.FORBIDDEN, -31403),
        (ErrorCode.RATE_LIMITED, -31429),
        (ErrorCode.UNAVAILABLE, -31503),
        (ErrorCode.DEADLINE_EXCEEDED, -31503),
    ],
)
def test_methods_without_error_results_use_json_rpc_codes(code, number):
    """Our own lie outside of the range that JSON-RPC reserves."""
    error = raise_for(Fault(code, "Why.")).error
    assert (error.code, error.message) == (number, f"{code}: Why.")
    assert error.data["code"] == code


def test_internal_errors_have_a_fixed_text():
    """Nothing of the cause, but a trace id."""
    assert internal_error().error.code == -32603
    assert "Report it with trace " in internal_error().error.message
    assert raise_for(Fault(ErrorCode.INTERNAL, "Fixed.")).error.code == -32603
    assert invalid_params("x").error.code == -32602


def test_text_of_another_exception_is_logged_and_not_shown(caplog):
    """What is meant for the client passes as it is."""
    meant = invalid_params("query: a string is required.")
    assert shown_error(meant, "tools/search") is meant
    fault = shown_error(Fault(ErrorCode.NOT_FOUND, "No such thing."), "tools/search")
    assert fault.error.message == "not_found: No such thing."
    assert not caplog.records
    hidden = shown_error(RuntimeError("secret-canary"), "tools/search")
    assert hidden.error.code == -32603
    assert "canary" not in hidden.error.message
    assert "tools/search failed" in caplog.text
    assert "secret-canary" in caplog.text

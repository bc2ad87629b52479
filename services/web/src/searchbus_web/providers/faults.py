"""Failures that the providers' APIs have in common."""

from __future__ import annotations

from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import Reply, retry_after_s

__all__ = ["key_refused", "limited", "unexpected_status"]


def key_refused(provider: str, setting: str) -> Fault:
    """The API key is not valid."""
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"{provider} refuses the API key. The operator of this service has to set a valid one in "
        f"{setting}.",
        retryable=False,
    )


def limited(provider: str, reply: Reply, *, default_s: float = 1.0) -> Fault:
    """HTTP 429; `default_s` is the wait where the reply has no Retry-After."""
    wait_s = retry_after_s(reply.headers) or default_s
    return Fault(
        ErrorCode.UPSTREAM_LIMITED,
        f"{provider} limits requests. Try again in {wait_s:.0f} s.",
        retry_after_ms=int(wait_s * 1000),
    )


def unexpected_status(provider: str, reply: Reply, setting: str) -> Fault:
    """Any other status; retryable where the server failed.

    Args:
        setting: holds the provider's address, which is wrong where the server did not fail.
    """
    retryable = reply.status == 408 or reply.status >= 500
    advice = (
        "Try again shortly."
        if retryable
        else f"The operator of this service has to check {setting}. Use another search tool."
    )
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"{provider} answers HTTP {reply.status}. {advice}",
        retryable=retryable,
    )

"""Failures that the providers' APIs have in common."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from searchbus_contracts import ErrorCode, Fault
from searchbus_upstream import Reply, retry_after_s
from searchbus_upstream.text import inert, plain

__all__ = ["key_refused", "limited", "reason_in", "refused_inside", "unexpected_status"]

_QUOTA = re.compile(r"quota|credit|billing|payment|usage.?limit|\bplan\b", re.I)
_LIMITED = re.compile(r"rate.?limit|too.?many.?requests|throttl|slow.?down", re.I)
_MAX_REASON_CHARS = 500
_LIMITED_MS = 1000


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


def refused_inside(provider: str, body: bytes) -> Fault | None:
    """The failure that a body names although its status is a success; None where it names none."""
    reason = reason_in(body)
    if not reason:
        return None
    if _QUOTA.search(reason):
        return Fault(
            ErrorCode.QUOTA_EXHAUSTED,
            f"The plan at {provider} is used up: {reason} Use another search tool.",
            retryable=False,
        )
    if _LIMITED.search(reason):
        return Fault(
            ErrorCode.UPSTREAM_LIMITED,
            f"{provider} limits requests: {reason} Try again in 1 s.",
            retry_after_ms=_LIMITED_MS,
        )
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"{provider} failed: {reason} Use another search tool.",
        retryable=False,
    )


def reason_in(body: bytes) -> str:
    """The provider's own words about a failure, as one sentence; empty without any.

    They stand in `detail`, `error` or `message`: a text, an object of texts, or a list of
    {loc, msg}.
    """
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    if not isinstance(raw, dict):
        return ""
    told = raw.get("detail") or raw.get("error") or raw.get("message")
    text = inert(plain(_texts(told)))[:_MAX_REASON_CHARS]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def _texts(told: Any) -> str:
    if isinstance(told, dict):
        names = ("error", "message", "detail", "code")
        text = " ".join(told[name] for name in names if isinstance(told.get(name), str))
        failed = told.get("failed_results")
        for item in failed if isinstance(failed, list) else ():
            if isinstance(item, dict):
                text += f" {str(item.get('url'))[:200]}: {item.get('error')}"
        return text
    if isinstance(told, list):
        return "; ".join(
            f"{'.'.join(str(part) for part in _list(item.get('loc')))}: {item.get('msg')}"
            for item in told
            if isinstance(item, dict)
        )
    return told if isinstance(told, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

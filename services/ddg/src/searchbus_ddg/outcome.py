"""What a request to DuckDuckGo can result in.

A result page without rows is `empty` only where the page says so; every other reply without rows
is a `DuckDuckGoError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from searchbus_contracts.web import WebResult

__all__ = ["REFUSALS", "DuckDuckGoError", "Outcome", "ResultPage"]


class Outcome(StrEnum):
    """The outcome of one request."""

    OK = "ok"
    EMPTY = "empty"
    CHALLENGE = "challenge"
    FINGERPRINT = "fingerprint_block"
    RATE_LIMITED = "rate_limited"
    UNKNOWN_MARKUP = "unknown_markup"
    TIMEOUT = "timeout"
    UPSTREAM_ERROR = "upstream_error"


REFUSALS = frozenset({Outcome.CHALLENGE, Outcome.FINGERPRINT, Outcome.RATE_LIMITED})
"""Outcomes that concern the egress address: it sends no requests during the cooldown."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A parsed result page: rows in their order, and the form that requests the next page."""

    outcome: Outcome
    rows: tuple[WebResult, ...] = ()
    next_form: dict[str, str] = field(default_factory=dict)


class DuckDuckGoError(Exception):
    """A request without a usable reply.

    Args:
        detail: for messages, e.g. "it answers HTTP 500".
        retry_after_s: what DuckDuckGo asked for in Retry-After.
    """

    def __init__(self, outcome: Outcome, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
        self.detail = detail
        self.retry_after_s = retry_after_s

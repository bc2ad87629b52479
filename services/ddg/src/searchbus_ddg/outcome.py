"""What a request to DuckDuckGo or another engine can result in.

A result page without rows is `empty` only where the page says so; every other reply without rows
is an `EngineError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import WebResult


class Outcome(StrEnum):
    """The outcome of one request."""

    OK = "ok"
    EMPTY = "empty"
    CHALLENGE = "challenge"
    BLANK = "blank_page"
    QUERY_REFUSED = "query_refused"
    RATE_LIMITED = "rate_limited"
    UNKNOWN_MARKUP = "unknown_markup"
    TIMEOUT = "timeout"
    UPSTREAM_ERROR = "upstream_error"


REFUSALS = frozenset(
    {Outcome.CHALLENGE, Outcome.BLANK, Outcome.RATE_LIMITED, Outcome.QUERY_REFUSED}
)
"""Outcomes of a request that was sent and refused; it may be sent once more, from another address.

A challenge and a rate limit concern the address. A blank page does so only if a probe gets one as
well: until then it may be due to the query. `QUERY_REFUSED` is a blank page where a probe has just
succeeded.
"""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A parsed result page: rows in their order, and the form that requests the next page."""

    outcome: Outcome
    rows: tuple[WebResult, ...] = ()
    next_form: dict[str, str] = field(default_factory=dict)


class EngineError(Exception):
    """A request without a usable reply; the detail is for messages, e.g. "it answers HTTP 500";
    seconds of its Retry-After."""

    def __init__(self, outcome: Outcome, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
        self.detail = detail
        self.retry_after_s = retry_after_s


def out_of_time() -> Fault:
    """The failure of a call whose own time is over: others, who have more, may go on."""
    return Fault(ErrorCode.DEADLINE_EXCEEDED, "The deadline passed. Try again with more time.")

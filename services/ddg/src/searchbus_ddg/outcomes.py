"""What a page of DuckDuckGo can be. An empty list is `empty` only on an explicit marker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from searchbus_contracts.web import WebResult

__all__ = ["Kind", "Page", "Refused"]


class Kind(StrEnum):
    """The outcome of one request."""

    OK = "ok"
    EMPTY = "empty"
    CHALLENGE = "challenge"
    FINGERPRINT = "fingerprint_block"
    RATE_LIMITED = "rate_limited"
    UNKNOWN_MARKUP = "unknown_markup"
    TIMEOUT = "timeout"
    UPSTREAM_ERROR = "upstream_error"


REFUSALS = frozenset({Kind.CHALLENGE, Kind.FINGERPRINT, Kind.RATE_LIMITED})
"""Outcomes that tell of this egress address: ask no more for a while."""


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page: rows in their order, and the form that asks for the next page."""

    kind: Kind
    rows: tuple[WebResult, ...] = ()
    next_form: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """DuckDuckGo answered without results to give; `kind` says how.

    Args:
        retry_after_s: what the upstream asked for, where it did.
    """

    def __init__(self, kind: Kind, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after_s = retry_after_s

"""Typed failures: the error codes of the wire, and `Fault`, the exception that carries one.

A `Failure` takes the place of a reply (proto/README.md §6). Its message is written for the agent
that reads it: what happened and what to do. It never contains the text of an unexpected exception.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class ErrorCode(StrEnum):
    """Every code that a failure of a searchbus service may have (proto/README.md §6)."""

    INVALID_ARGUMENT = "invalid_argument"
    INVALID_QUERY = "invalid_query"
    FORBIDDEN = "forbidden"
    LOGIN_REQUIRED = "login_required"
    NOT_FOUND = "not_found"
    EMPTY_CORPUS = "empty_corpus"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    RATE_LIMITED = "rate_limited"
    UPSTREAM_BLOCKED = "upstream_blocked"
    UPSTREAM_LIMITED = "upstream_limited"
    UPSTREAM_FAILED = "upstream_failed"
    QUOTA_EXHAUSTED = "quota_exhausted"
    STORAGE_FULL = "storage_full"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


RETRYABLE = frozenset(
    {
        ErrorCode.DEADLINE_EXCEEDED,
        ErrorCode.RATE_LIMITED,
        ErrorCode.UPSTREAM_BLOCKED,
        ErrorCode.UPSTREAM_LIMITED,
        ErrorCode.UPSTREAM_FAILED,
        ErrorCode.OVERLOADED,
        ErrorCode.UNAVAILABLE,
    }
)
"""Codes after which the same request may succeed later, unless the failure says otherwise."""


MAX_CREDITS = 1_000_000.0
"""The most that one call may cost."""
Credits = Annotated[
    float,
    Meta(
        ge=0,
        le=MAX_CREDITS,
        description="What a tool's call cost at paid providers: credits, or requests.",
    ),
]


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a failed reply; its headers repeat the code and the message.

    `code` is a plain string, so that the code of a newer peer still decodes.
    """

    code: Annotated[str, Meta(description="One of the error codes; unknown codes are terminal.")]
    message: Annotated[str, Meta(description="What happened and what to do, for the caller.")]
    retryable: Annotated[
        bool, Meta(description="Whether the same request may succeed when it is sent again.")
    ] = False
    retry_after_ms: (
        Annotated[int, Meta(ge=0, description="Milliseconds to wait before sending it again.")]
        | None
    ) = None
    credits: Credits = 0.0


class Fault(Exception):
    """A typed failure on its way to the caller.

        raise Fault(ErrorCode.NOT_FOUND, "No document 'x'. Take the id from a search result.")

    Args:
        code: one of `ErrorCode`, or the code of a newer peer.
        message: one or two sentences for the caller; no secrets, no exception text.
        retryable: defaults to whether the code is in `RETRYABLE`.
        retry_after_ms: milliseconds to wait before the next try; `None` where unknown.
    """

    def __init__(
        self,
        code: ErrorCode | str,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.failure = Failure(
            code=str(code),
            message=message,
            retryable=code in RETRYABLE if retryable is None else retryable,
            retry_after_ms=retry_after_ms,
        )

    @property
    def code(self) -> str:
        """The failure's code."""
        return self.failure.code

    @classmethod
    def of(cls, failure: Failure) -> Fault:
        """The exception for a failure that was received over the bus."""
        fault = cls(failure.code, failure.message)
        fault.failure = failure
        return fault

"""Failures: the one table of how each interface shows them, and the answers in its form.

| interface | body |
| --- | --- |
| MCP | JSON-RPC error; a failed call is a result, see tools/faults.py |
| /api/v1, /openapi.json, /docs, /read | problem details (RFC 9457) |
| Tavily's | `{"detail": {"error": message}}` |
| SearXNG's | `{"error": message}` |
| pages | plain text |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

import msgspec
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from msgspec import Meta, Struct
from opentelemetry import metrics

from searchbus_contracts import ErrorCode, Failure, Fault, encode
from searchbus_contracts.codec import doc

from .answer import JSON, TEXT, PlainAnswer
from .head import Headers

TOOL_ERROR = "tool_error"
"""A tool reports a failure in its own words."""
INVALID_REQUEST = "invalid_request"
"""What is wrong with a request is not the call but its HTTP form."""
UNAUTHENTICATED = "unauthenticated"
CODES = (*ErrorCode, TOOL_ERROR, INVALID_REQUEST, UNAUTHENTICATED)
"""Every code that this edge gives a problem; a newer worker may have others."""


class Shown(NamedTuple):
    """How a failure is shown: the number of its JSON-RPC error, and a status by interface."""

    json_rpc: int
    problem: int
    tavily: int
    searxng: int
    page: int


# Numbers of our own are outside of -32768..-32000, which JSON-RPC reserves; after HTTP's.
_AWAY = -31503
SHOWN: dict[str, Shown] = {
    ErrorCode.INVALID_ARGUMENT: Shown(INVALID_PARAMS, 400, 400, 400, 404),
    ErrorCode.INVALID_QUERY: Shown(INVALID_PARAMS, 400, 400, 400, 503),
    ErrorCode.NOT_FOUND: Shown(INVALID_PARAMS, 404, 404, 503, 404),
    ErrorCode.FORBIDDEN: Shown(-31403, 403, 403, 403, 503),
    ErrorCode.RATE_LIMITED: Shown(-31429, 429, 429, 429, 503),
    ErrorCode.INTERNAL: Shown(INTERNAL_ERROR, 500, 500, 500, 503),
    ErrorCode.LOGIN_REQUIRED: Shown(_AWAY, 403, 503, 503, 503),
    ErrorCode.EMPTY_CORPUS: Shown(_AWAY, 404, 503, 503, 503),
    ErrorCode.DEADLINE_EXCEEDED: Shown(_AWAY, 504, 504, 503, 503),
    ErrorCode.UPSTREAM_FAILED: Shown(_AWAY, 502, 502, 503, 503),
    ErrorCode.QUOTA_EXHAUSTED: Shown(_AWAY, 503, 432, 503, 503),
    ErrorCode.STORAGE_FULL: Shown(_AWAY, 507, 503, 503, 503),
    ErrorCode.UPSTREAM_BLOCKED: Shown(_AWAY, 503, 503, 503, 503),
    ErrorCode.UPSTREAM_LIMITED: Shown(_AWAY, 503, 503, 503, 503),
    ErrorCode.OVERLOADED: Shown(_AWAY, 503, 503, 503, 503),
    ErrorCode.UNAVAILABLE: Shown(_AWAY, 503, 503, 503, 503),
    ErrorCode.CANCELLED: Shown(_AWAY, 503, 503, 503, 503),
    TOOL_ERROR: Shown(_AWAY, 422, 503, 503, 503),
}
_UNKNOWN = Shown(_AWAY, 500, 503, 503, 503)
"""A code of a newer worker."""
_CODES_OF_HTTP = {401: UNAUTHENTICATED, 403: "forbidden", 404: "not_found", 429: "rate_limited"}
"""Codes of requests that are refused before a tool is called; others are `invalid_request`."""
_WORTH_A_RETRY = (408, 429, 503)

_refused = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.http.refused",
    description="HTTP requests refused before an MCP message was read, by status.",
)


def shown(code: str) -> Shown:
    """How a failure with this code is shown."""
    return SHOWN.get(code, _UNKNOWN)


class HttpError(Exception):
    """A failure with a status of its own in all interfaces, and headers beside the usual ones."""

    def __init__(self, status: int, failure: Failure, headers: Headers = ()) -> None:
        super().__init__(failure.message)
        self.status = status
        self.failure = failure
        self.headers = headers


class HttpRefusedError(HttpError):
    """A request that is refused before a tool is called; `code` is of its JSON-RPC error. It is
    counted when it is answered."""

    def __init__(
        self, status: int, message: str, code: int = -32600, headers: Headers = ()
    ) -> None:
        kind = _CODES_OF_HTTP.get(status, INVALID_REQUEST)
        text, retryable = message.removeprefix(f"{kind}: "), status in _WORTH_A_RETRY
        super().__init__(status, Failure(code=kind, message=text, retryable=retryable), headers)
        self.message = message
        self.code = code


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Problem details of one failure."""

    type: Annotated[str, doc("A name (a tag URI) of the kind of problem.")]
    title: Annotated[str, doc("The reason phrase of the status.")]
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: Annotated[str, doc("What happened and what to do.")]
    code: Annotated[str, doc("The same error codes as over MCP.")]
    retryable: Annotated[
        bool, doc("Whether the same request may succeed when it is sent again.")
    ] = False
    retry_after_ms: Annotated[int | None, doc("Milliseconds to wait before sending it again.")] = (
        None
    )


def problem_of(error: Fault | HttpError) -> Problem:
    """The problem details of a failure."""
    return _problem(_status(error, "problem"), error.failure)


def _problem(status: int, failure: Failure) -> Problem:
    return Problem(
        type=f"tag:searchbus.dev,2026:{failure.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=failure.message,
        code=failure.code,
        retryable=failure.retryable,
        retry_after_ms=failure.retry_after_ms,
    )


class Form(NamedTuple):
    """How an interface shows failures: its column of `Shown`, its body by status and failure."""

    column: str
    body: Callable[[int, Failure], bytes]
    content_type: bytes = JSON


PROBLEM = Form(
    "problem",
    lambda status, failure: encode(_problem(status, failure)),
    b"application/problem+json",
)
TAVILY = Form("tavily", lambda _, failure: encode({"detail": {"error": failure.message}}))
SEARXNG = Form("searxng", lambda _, failure: encode({"error": failure.message}))
PAGE = Form("page", lambda _, failure: failure.message.encode(), TEXT)


def failed(error: Fault | HttpError, form: Form) -> PlainAnswer:
    """The answer to a request that failed."""
    status = _status(error, form.column)
    headers = error.headers if isinstance(error, HttpError) else ()
    wait_ms = error.failure.retry_after_ms
    if wait_ms is not None and not any(name == b"retry-after" for name, _ in headers):
        headers = (*headers, (b"retry-after", b"%d" % retry_after_s(wait_ms)))
    return PlainAnswer(
        form.body(status, error.failure),
        status=status, content_type=form.content_type, headers=headers,
    )  # fmt: skip


def refused(refusal: HttpRefusedError, message_id: Any = None) -> PlainAnswer:
    """The JSON-RPC error for a refused request, which is counted; its id is None where unknown."""
    count_refused(refusal.status)
    error = {"code": refusal.code, "message": refusal.message}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": message_id, "error": error})
    return PlainAnswer(body, status=refusal.status, headers=refusal.headers)


def retry_after_s(wait_ms: int) -> int:
    """The value of Retry-After (RFC 9110), in whole seconds."""
    return max(1, math.ceil(wait_ms / 1000))


def count_refused(status: int, number: int = 1) -> None:
    """Count HTTP requests that were refused before a tool was called or a message read. `number` 0
    publishes a zero: a first value of one is not seen as an increase."""
    _refused.add(number, {"status": str(status)})


def unknown_toolset(name: str) -> str:
    """The message on a toolset that does not exist, by the name that a caller gave."""
    return f"There is no toolset {name[:64]!r}. GET / lists the endpoints."


def _status(error: Fault | HttpError, column: str) -> int:
    """The status of the answer; a refused request is counted."""
    if isinstance(error, HttpRefusedError):
        count_refused(error.status)
    if isinstance(error, HttpError):
        return error.status
    found: int = getattr(shown(error.code), column)
    return found

"""Failures of plain HTTP as problem details (RFC 9457).

| what failed | status |
| --- | --- |
| a failure of the wire | by its code, see `_STATUS` |
| a tool that reports a failure in its own words | 422, code `tool_error` |
| a request with a bad head, body or address | as the refusal says |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from msgspec import Meta, Struct

from searchbus_contracts import ErrorCode, Failure, TextContent, encode

from ..tools.call import MISSING_CAPABILITY
from ..tools.reply import Reply
from ..tools.telemetry import count_refused
from .head import Refusal

__all__ = ["CODES", "Problem", "ProblemError", "send_problem", "unknown_toolset"]

_SHOWN_CHARS = 64
"""Of a name that a caller gave and that does not exist."""

TOOL_ERROR = "tool_error"
INVALID_REQUEST = "invalid_request"
UNAUTHENTICATED = "unauthenticated"
CODES = (*ErrorCode, TOOL_ERROR, INVALID_REQUEST, UNAUTHENTICATED)
"""Every code that this edge gives a problem; a newer worker may have others."""
_TYPE = "tag:searchbus.dev,2026:"
_CONTENT_TYPE = (b"content-type", b"application/problem+json")
_STATUS: dict[str, int] = {
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.INVALID_QUERY: 400,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.LOGIN_REQUIRED: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.EMPTY_CORPUS: 404,
    ErrorCode.DEADLINE_EXCEEDED: 504,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.UPSTREAM_BLOCKED: 503,
    ErrorCode.UPSTREAM_LIMITED: 503,
    ErrorCode.UPSTREAM_FAILED: 502,
    ErrorCode.QUOTA_EXHAUSTED: 503,
    ErrorCode.STORAGE_FULL: 507,
    ErrorCode.OVERLOADED: 503,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.CANCELLED: 503,
    ErrorCode.INTERNAL: 500,
    TOOL_ERROR: 422,
}
_CODES_OF_HTTP = {401: UNAUTHENTICATED, 403: "forbidden", 404: "not_found", 429: "rate_limited"}
"""Of requests that are refused before a tool is called; all others are `invalid_request`."""


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Problem details of one failure."""

    type: Annotated[str, Meta(description="A name (a tag URI) of the kind of problem.")]
    title: Annotated[str, Meta(description="The reason phrase of the status.")]
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: Annotated[str, Meta(description="What happened and what to do.")]
    code: Annotated[str, Meta(description="The same error codes as over MCP.")]
    retryable: Annotated[
        bool, Meta(description="Whether the same request may succeed when it is sent again.")
    ] = False
    retry_after_ms: Annotated[
        int | None, Meta(description="Milliseconds to wait before sending it again.")
    ] = None

    @classmethod
    def of(
        cls,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_ms: int | None = None,
    ) -> Problem:
        """A problem with the status of its code, unless another one is given."""
        status = status or _STATUS.get(code, 500)
        return cls(
            type=_TYPE + code, title=HTTPStatus(status).phrase, status=status, detail=detail,
            code=code, retryable=retryable, retry_after_ms=retry_after_ms,
        )  # fmt: skip

    @classmethod
    def of_failure(cls, failure: Failure) -> Problem:
        """A failure of the wire."""
        return cls.of(
            failure.code, failure.message,
            retryable=failure.retryable, retry_after_ms=failure.retry_after_ms,
        )  # fmt: skip

    @classmethod
    def of_reply(cls, reply: Reply) -> Problem:
        """A reply with `is_error`, or one that needs input from an MCP client."""
        if reply.input_required is not None:
            return cls.of(ErrorCode.INVALID_ARGUMENT, _NEEDS_MCP)
        error = (reply.value or {}).get("error")
        try:
            return cls.of_failure(msgspec.convert(error, Failure))
        except msgspec.ValidationError:  # not one of the wire: the tool's own words
            texts = [block.text for block in reply.content if isinstance(block, TextContent)]
            return cls.of(TOOL_ERROR, "\n\n".join(texts) or "The tool reports a failure.")

    @classmethod
    def of_mcp(cls, error: MCPError) -> Problem:
        """What MCP answers with a JSON-RPC error."""
        number, message, data = error.error.code, error.error.message, error.error.data
        try:
            failure = msgspec.convert({"message": message, **(data or {})}, Failure)
        except (msgspec.ValidationError, TypeError):
            failure = None
        if failure is not None:
            text = failure.message.removeprefix(f"{failure.code}: ")
            return cls.of_failure(msgspec.structs.replace(failure, message=text))
        if number == INVALID_PARAMS:
            return cls.of(ErrorCode.INVALID_ARGUMENT, message)
        if number == MISSING_CAPABILITY:
            return cls.of(ErrorCode.INVALID_ARGUMENT, _NEEDS_MCP)
        return cls.of(ErrorCode.INTERNAL, message)


_NEEDS_MCP = "The tool needs input from the client while it runs. Call it over MCP, at /mcp."


class ProblemError(Exception):
    """Ends the service of a request.

    Args:
        headers: of the response, beside those that every problem has.
    """

    def __init__(self, problem: Problem, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem
        self.headers = tuple(headers)

    @classmethod
    def of_refusal(cls, refusal: Refusal) -> ProblemError:
        """A request that is refused before a tool is called; it is counted."""
        count_refused(refusal.status)
        code = _CODES_OF_HTTP.get(refusal.status, INVALID_REQUEST)
        detail = refusal.message.removeprefix(f"{code}: ")
        busy = refusal.status in (408, 429, 503)
        problem = Problem.of(code, detail, status=refusal.status, retryable=busy)
        return cls(problem, refusal.headers)


async def send_problem(send: Any, error: ProblemError) -> None:
    """Answer with a problem, and with Retry-After (in seconds) where its time is known.

    Args:
        send: of the ASGI request.
    """
    body = encode(error.problem)
    headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(body)), *error.headers]
    wait_ms = error.problem.retry_after_ms
    if wait_ms is not None and not any(name == b"retry-after" for name, _ in error.headers):
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(wait_ms / 1000))))
    await send({"type": "http.response.start", "status": error.problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def unknown_toolset(name: str) -> str:
    """What to say of a toolset that does not exist, by the name that a caller gave."""
    return f"There is no toolset {name[:_SHOWN_CHARS]!r}. GET / lists the endpoints."

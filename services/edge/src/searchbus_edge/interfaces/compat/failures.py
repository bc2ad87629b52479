"""Failures in the form of each interface: its status, its body.

    failed = failed_by(error, FORMS["tavily"])
    await send_failed(send, failed, FORMS["tavily"])

| interface | body |
| --- | --- |
| searxng | `{"error": message}` |
| tavily | `{"detail": {"error": message}}` |
| read | problem details (RFC 9457), as of `/api/v1` |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from searchbus_contracts import Fault, encode

from ...http.problems import Problem, ProblemError
from ...tools.faults import shown_error
from . import searxng, tavily
from .reading import PageRefused

__all__ = ["FORMS", "Failed", "Form", "failed_by", "send_failed"]


class Failed(Struct, frozen=True):
    """Why a request was not answered.

    Args:
        status: of HTTP.
        headers: that go with a refusal.
    """

    status: int
    code: str
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Form(Struct, frozen=True):
    """How an interface shows failures.

    Args:
        status_of: the status of a failed call.
        body: of the answer.
    """

    status_of: Callable[[Fault], int]
    body: Callable[[Failed], dict[str, Any] | Problem]
    content_type: bytes = b"application/json"


def failed_by(error: Exception, form: Form) -> Failed:
    """What the client receives for an exception; what is not meant for it is logged."""
    if isinstance(error, PageRefused):
        return Failed(error.status, error.code, str(error))
    if isinstance(error, Fault):
        failure = error.failure
        return Failed(
            form.status_of(error), failure.code, failure.message,
            failure.retryable, failure.retry_after_ms,
        )  # fmt: skip
    if not isinstance(error, ProblemError):
        error = ProblemError(Problem.of_mcp(shown_error(error, "tools/call")))
    problem = error.problem
    return Failed(
        problem.status, problem.code, problem.detail,
        problem.retryable, problem.retry_after_ms, error.headers,
    )  # fmt: skip


async def send_failed(send: Any, failed: Failed, form: Form) -> None:
    """Answer with a failure, and with Retry-After (in seconds) where its time is known.

    Args:
        send: of the ASGI request.
    """
    body = encode(form.body(failed))
    headers = [(b"content-type", form.content_type), (b"content-length", b"%d" % len(body))]
    headers += failed.headers
    if failed.retry_after_ms is not None and b"retry-after" not in dict(failed.headers):
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(failed.retry_after_ms / 1000))))
    await send({"type": "http.response.start", "status": failed.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _problem(failed: Failed) -> Problem:
    return Problem.of(
        failed.code, failed.message, status=failed.status,
        retryable=failed.retryable, retry_after_ms=failed.retry_after_ms,
    )  # fmt: skip


FORMS = {
    "searxng": Form(searxng.status_of, lambda failed: {"error": failed.message}),
    "tavily": Form(tavily.status_of, lambda failed: tavily.error_body(failed.message)),
    "read": Form(
        lambda fault: Problem.of_failure(fault.failure).status,
        _problem,
        b"application/problem+json",
    ),
}
"""By the name of the interface."""

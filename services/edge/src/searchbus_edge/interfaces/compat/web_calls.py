"""The web tools' calls for one HTTP request, through the policies of the edge."""

from __future__ import annotations

from typing import Any

from searchbus_contracts import ErrorCode, Fault

from ...http.head import Received
from ...http.problems import ProblemError
from ...tools.reply import Reply
from ..calls import HttpCalls
from .web_tools import TOOLSET

__all__ = ["WebCalls"]


class WebCalls:
    """A `CallTool`; the span of the request is the current one.

    Args:
        received: the request, whose caller is identified.
    """

    def __init__(self, calls: HttpCalls, received: Received) -> None:
        self._calls = calls
        self._received = received

    async def __call__(
        self, tool: str, arguments: dict[str, Any], *, timeout_s: float | None = None
    ) -> Reply:
        """See `CallTool`.

        Raises:
            Fault: the call failed.
            ProblemError: the caller lacks a role.
        """
        view = self._calls.toolset(TOOLSET)
        if view is None:
            raise Fault(ErrorCode.UNAVAILABLE, "No web service is running. Try again later.")
        try:
            served = await self._calls.call(
                self._received, view, tool, arguments, timeout_s=timeout_s, inside=True
            )
        except ProblemError as error:
            if error.headers:  # a refusal, which says how to be let in
                raise
            problem = error.problem
            raise Fault(
                problem.code,
                problem.detail,
                retryable=problem.retryable,
                retry_after_ms=problem.retry_after_ms,
            ) from None
        return served.reply

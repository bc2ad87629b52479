"""Calls of the web tools through the policies of the edge."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor, ErrorCode, Fault, ToolReply
from searchbus_edge.http.head import Received, Refusal, parse_head
from searchbus_edge.http.problems import Problem, ProblemError
from searchbus_edge.interfaces.compat.web_calls import WebCalls
from searchbus_edge.tools.call import Served
from searchbus_edge.tools.reply import Reply


class FakeCalls:
    """Records a call; answers it, or fails."""

    def __init__(self, error: ProblemError | None = None, *, web: bool = True) -> None:
        self._error = error
        self._web = web
        self.calls = []

    def toolset(self, name):
        return f"view of {name}" if self._web else None

    async def call(self, received, view, name, arguments, *, timeout_s, inside):
        self.calls.append((view, name, arguments, timeout_s, inside))
        if self._error is not None:
            raise self._error
        return Served(None, Reply.of(ToolReply(structured={"a": 1})))


RECEIVED = Received(parse_head([]), Actor(subject="a"))


async def call(calls: FakeCalls) -> Reply:
    return await WebCalls(calls, RECEIVED)("web_search_news", {"query": "x"}, timeout_s=2.0)


async def test_tool_is_one_of_the_toolset():
    """Whatever its name on /mcp is; several calls share the span of the request."""
    calls = FakeCalls()
    assert (await call(calls)).value == {"a": 1}
    assert calls.calls == [("view of web", "web_search_news", {"query": "x"}, 2.0, True)]


async def test_failure_of_a_call_is_a_fault():
    """With what a client needs to send it again."""
    problem = Problem.of("upstream_limited", "Wait.", retryable=True, retry_after_ms=900)
    with pytest.raises(Fault) as raised:
        await call(FakeCalls(ProblemError(problem)))
    failure = raised.value.failure
    assert (failure.code, failure.retryable, failure.retry_after_ms) == (
        "upstream_limited", True, 900,
    )  # fmt: skip


async def test_refusal_stays_with_its_headers():
    """They name the role that is missing."""
    refusal = Refusal(403, "forbidden: No.", headers=((b"www-authenticate", b"Bearer"),))
    with pytest.raises(ProblemError) as raised:
        await call(FakeCalls(ProblemError.of_refusal(refusal)))
    assert raised.value.headers == refusal.headers


async def test_toolset_that_is_away_is_unavailable():
    """No service offers it."""
    with pytest.raises(Fault) as raised:
        await call(FakeCalls(web=False))
    assert raised.value.code == ErrorCode.UNAVAILABLE

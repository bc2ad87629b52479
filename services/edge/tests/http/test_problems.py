"""Problem details: each failure has the status, the code and the time to wait that MCP shows."""

from __future__ import annotations

import json

import pytest

from searchbus_contracts import ErrorCode, Failure, Fault, TextContent, ToolReply
from searchbus_contracts.tools import InputRequired
from searchbus_edge.http.head import Refusal
from searchbus_edge.http.problems import CODES, Problem, ProblemError, send_problem
from searchbus_edge.tools.faults import failed_reply, internal_error, invalid_params, raise_for
from searchbus_edge.tools.reply import Reply

BLOCKED = Fault(ErrorCode.UPSTREAM_BLOCKED, "Blocked. Wait.", retry_after_ms=1500)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_status_of_failures(code):
    """And a title that is the reason phrase of it."""
    problem = Problem.of(code, "Why.")
    assert 400 <= problem.status < 600
    assert problem.type.endswith(f":{code}")
    assert problem.title


def test_failure_keeps_its_fields():
    """Code, text, whether and when to try again; over MCP as a result or as a JSON-RPC error."""
    found = Problem.of_failure(BLOCKED.failure)
    assert (found.status, found.code, found.detail) == (503, "upstream_blocked", "Blocked. Wait.")
    assert (found.retryable, found.retry_after_ms) == (True, 1500)
    assert Problem.of_reply(Reply.of(failed_reply(BLOCKED))) == found
    assert Problem.of_mcp(raise_for(BLOCKED)) == found


def test_errors_of_mcp_have_their_codes():
    """A wrong parameter, an internal error with its trace; never another one's text."""
    found = Problem.of_mcp(invalid_params("Unknown cursor."))
    assert (found.status, found.code, found.detail) == (400, "invalid_argument", "Unknown cursor.")
    found = Problem.of_mcp(internal_error())
    assert (found.status, found.code) == (500, "internal")
    assert "trace" in found.detail


def test_tool_that_fails_in_its_own_words_is_not_our_failure():
    """422 with its text."""
    reply = ToolReply(content=(TextContent(text="No such file."),), is_error=True)
    found = Problem.of_reply(Reply.of(reply))
    assert (found.status, found.code, found.detail) == (422, "tool_error", "No such file.")
    odd = ToolReply(structured={"error": "no"}, is_error=True)
    assert Problem.of_reply(Reply.of(odd)).code == "tool_error"


def test_tool_that_asks_its_client_needs_mcp():
    """Plain HTTP has no way to answer it."""
    found = Problem.of_reply(Reply.of(ToolReply(input_required=InputRequired(requests={}))))
    assert (found.status, found.code) == (400, "invalid_argument")
    assert "/mcp" in found.detail


@pytest.mark.parametrize(
    ("status", "code"), [(401, "unauthenticated"), (403, "forbidden"), (413, "invalid_request")]
)
def test_refused_request_keeps_status_and_headers(status, code):
    """And says once what its code is."""
    refusal = Refusal(status, f"{code}: No.", headers=((b"www-authenticate", b"Bearer"),))
    error = ProblemError.of_refusal(refusal)
    assert (error.problem.status, error.problem.code, error.problem.detail) == (status, code, "No.")
    assert error.headers == refusal.headers


async def _sent(error):
    events = []

    async def send(event):
        events.append(event)

    await send_problem(send, error)
    return events[0]["status"], dict(events[0]["headers"]), json.loads(events[1]["body"])


async def test_answer_is_problem_json_with_retry_after():
    """Whole seconds, rounded up; none where the time is not known."""
    status, headers, body = await _sent(ProblemError(Problem.of_failure(BLOCKED.failure)))
    assert (status, headers[b"content-type"]) == (503, b"application/problem+json")
    assert headers[b"retry-after"] == b"2"
    assert body["status"] == 503
    plain = Failure(code="unavailable", message="Away.", retryable=True)
    _, headers, body = await _sent(ProblemError(Problem.of_failure(plain)))
    assert b"retry-after" not in headers
    assert "retry_after_ms" not in body


def test_only_internal_errors_are_errors_of_the_server():
    """A caller who must sign in elsewhere finds no broken edge."""
    internal = [code for code in ErrorCode if Problem.of(code, "x").status == 500]
    assert internal == [ErrorCode.INTERNAL]

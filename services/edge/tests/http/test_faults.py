"""Failures: each has the status, the code and the time to wait of its interface."""

from __future__ import annotations

import json

import pytest

from searchbus_contracts import ErrorCode, Failure, Fault
from searchbus_edge.http import faults
from searchbus_edge.http.faults import (
    CODES,
    PAGE,
    PROBLEM,
    SEARXNG,
    SHOWN,
    TAVILY,
    HttpError,
    HttpRefusedError,
    failed,
    problem_of,
    refused,
)

BLOCKED = Fault(ErrorCode.UPSTREAM_BLOCKED, "Blocked. Wait.", retry_after_ms=1500)


async def sent(answer) -> tuple[int, dict[bytes, bytes], bytes]:
    """What a client receives."""
    events = []

    async def send(event):
        events.append(event)

    await answer({}, None, send)
    start, body = events
    headers = dict(start["headers"])
    assert headers[b"content-length"] == b"%d" % len(body["body"])
    assert headers[b"x-content-type-options"] == b"nosniff"
    return start["status"], headers, body["body"]


def test_every_code_of_the_wire_is_in_the_table():
    """A new one is shown as it is decided, not by chance."""
    assert set(ErrorCode) <= set(SHOWN)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_status_of_failures(code):
    """And a title that is the reason phrase of it."""
    problem = problem_of(Fault(code, "Why."))
    assert 400 <= problem.status < 600
    assert problem.type.endswith(f":{code}")
    assert problem.title


@pytest.mark.parametrize(
    ("code", "tavily", "searxng"),
    [
        ("invalid_argument", 400, 400), ("invalid_query", 400, 400), ("forbidden", 403, 403),
        ("rate_limited", 429, 429), ("quota_exhausted", 432, 503), ("internal", 500, 500),
        ("upstream_failed", 502, 503), ("upstream_blocked", 503, 503), ("unavailable", 503, 503),
        ("deadline_exceeded", 504, 503), ("overloaded", 503, 503),
        ("a code of a newer peer", 503, 503),
    ],
)  # fmt: skip
def test_statuses_are_those_that_clients_tell_apart(code, tavily, searxng):
    """As the two APIs have them."""
    fault = Fault(code, "No.")
    assert failed(fault, TAVILY).status_code == tavily
    assert failed(fault, SEARXNG).status_code == searxng


@pytest.mark.parametrize(
    ("form", "content_type", "body"),
    [
        (TAVILY, b"application/json", {"detail": {"error": "No."}}),
        (SEARXNG, b"application/json", {"error": "No."}),
    ],
)
async def test_failure_has_the_form_of_its_interface(form, content_type, body):
    """One failure is shown by each in its own way."""
    fault = Fault("quota_exhausted", "No.", retry_after_ms=1200)
    status, headers, found = await sent(failed(fault, form))
    assert status == {TAVILY: 432, SEARXNG: 503}[form]
    assert (headers[b"content-type"], json.loads(found)) == (content_type, body)
    assert headers[b"retry-after"] == b"2"


async def test_problem_has_every_field():
    """Whole seconds in Retry-After, rounded up; none where the time is not known."""
    status, headers, body = await sent(failed(BLOCKED, PROBLEM))
    assert (status, headers[b"content-type"]) == (503, b"application/problem+json")
    assert headers[b"retry-after"] == b"2"
    assert json.loads(body) == {
        "type": "tag:searchbus.dev,2026:upstream_blocked", "title": "Service Unavailable",
        "status": 503, "detail": "Blocked. Wait.", "code": "upstream_blocked", "retryable": True,
        "retry_after_ms": 1500,
    }  # fmt: skip
    _, headers, body = await sent(failed(Fault("unavailable", "Away."), PROBLEM))
    assert b"retry-after" not in headers
    assert "retry_after_ms" not in json.loads(body)


async def test_page_is_plain_text():
    """Documents that are not there are missing, those that cannot be read are away."""
    found = await sent(failed(Fault(ErrorCode.NOT_FOUND, "No document."), PAGE))
    assert (found[0], found[2]) == (404, b"No document.")
    assert (await sent(failed(Fault(ErrorCode.RATE_LIMITED, "Wait."), PAGE)))[0] == 503


@pytest.mark.parametrize("form", [PROBLEM, TAVILY, SEARXNG, PAGE])
async def test_refused_request_keeps_status_and_headers(form):
    """They say how to be let in; its own Retry-After counts."""
    headers = ((b"retry-after", b"7"), (b"www-authenticate", b"Bearer"))
    error = HttpRefusedError(429, "rate_limited: Wait.", headers=headers)
    status, found, body = await sent(failed(error, form))
    assert (status, found[b"retry-after"], found[b"www-authenticate"]) == (429, b"7", b"Bearer")
    assert b"Wait." in body
    assert b"rate_limited: " not in body


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (401, "unauthenticated", False),
        (403, "forbidden", False),
        (408, "invalid_request", True),
        (413, "invalid_request", False),
        (429, "rate_limited", True),
    ],
)
def test_code_of_a_refusal_follows_its_status(status, code, retryable):
    """It is said once."""
    failure = HttpRefusedError(status, f"{code}: No.").failure
    assert failure == Failure(code=code, message="No.", retryable=retryable)


async def test_refusal_of_mcp_is_a_json_rpc_error():
    """Status, headers, body with the id of the request."""
    refusal = HttpRefusedError(405, "Use POST.", headers=((b"allow", b"POST"),))
    status, headers, body = await sent(refused(refusal, "a"))
    assert (status, headers[b"allow"]) == (405, b"POST")
    assert json.loads(body) == {
        "jsonrpc": "2.0", "id": "a", "error": {"code": -32600, "message": "Use POST."},
    }  # fmt: skip


def test_refused_requests_are_counted(monkeypatch):
    """By status, whatever their form; other failures are not."""
    counted = []
    monkeypatch.setattr(faults, "count_refused", counted.append)
    refused(HttpRefusedError(405, "No."))
    failed(HttpRefusedError(413, "No."), TAVILY)
    failed(HttpRefusedError(401, "No."), PROBLEM)
    problem_of(HttpRefusedError(403, "No."))
    failed(HttpError(502, Failure(code="timeout", message="No.")), PAGE)
    assert counted == [405, 413, 401, 403]


def test_only_internal_errors_are_errors_of_the_server():
    """A caller who must sign in elsewhere finds no broken edge."""
    assert [code for code in ErrorCode if SHOWN[code].problem == 500] == [ErrorCode.INTERNAL]


def test_numbers_of_json_rpc_are_not_reserved():
    """Those of our own lie outside of -32768..-32000."""
    own = {shown.json_rpc for shown in SHOWN.values()} - {-32602, -32603}
    assert own == {-31403, -31429, -31503}

"""Failures in the form of each interface."""

from __future__ import annotations

import json

import pytest

from searchbus_contracts import Fault
from searchbus_edge.http.head import Refusal
from searchbus_edge.http.problems import ProblemError
from searchbus_edge.interfaces.compat.failures import FORMS, failed_by, send_failed
from searchbus_edge.interfaces.compat.reading import PageRefused
from searchbus_edge.interfaces.compat.web_tools import Page


async def sent(error: Exception, name: str) -> tuple[int, dict[bytes, bytes], dict]:
    """What a client receives."""
    messages = []

    async def send(message):
        messages.append(message)

    await send_failed(send, failed_by(error, FORMS[name]), FORMS[name])
    start, body = messages
    return start["status"], dict(start["headers"]), json.loads(body["body"])


@pytest.mark.parametrize(
    ("name", "status", "body"),
    [
        ("searxng", 503, {"error": "No."}),
        ("tavily", 432, {"detail": {"error": "No."}}),
    ],
)
async def test_failed_call_has_status_and_form_of_the_interface(name, status, body):
    """One failure is shown by each in its own way."""
    found = await sent(Fault("quota_exhausted", "No.", retry_after_ms=1200), name)
    assert (found[0], found[2]) == (status, body)
    assert found[1][b"retry-after"] == b"2"


async def test_page_that_cannot_be_read_is_a_problem():
    """Its code is the page's status."""
    status, headers, body = await sent(PageRefused(Page("u", "http_404")), "read")
    assert (status, body["code"], body["status"]) == (404, "http_404", 404)
    assert headers[b"content-type"] == b"application/problem+json"


async def test_refusal_keeps_its_headers():
    """That say how to be let in; its own Retry-After counts."""
    refusal = Refusal(429, "Wait.", headers=((b"retry-after", b"7"),))
    status, headers, body = await sent(ProblemError.of_refusal(refusal), "searxng")
    assert (status, headers[b"retry-after"], body) == (429, b"7", {"error": "Wait."})


@pytest.mark.parametrize("name", FORMS)
async def test_unexpected_error_is_not_shown(name, caplog):
    """But logged."""
    status, _, body = await sent(RuntimeError("canary"), name)
    assert status == 500
    assert "canary" not in json.dumps(body)
    assert "canary" in caplog.text

"""Tavily: requests, replies, errors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from searchbus_bus.live import live_parts
from searchbus_contracts import Actor
from searchbus_upstream import HttpReply
from searchbus_web.providers import tavily
from searchbus_web.providers.base import Query, Result

FIXTURES = Path(__file__).parents[1] / "fixtures"
ACTOR = Actor(subject="a")


def provider_of(client) -> tuple[tavily.Tavily, object]:
    return tavily.Tavily(client, "https://api.tavily.example/", ["secret"]), client


async def test_search_has_the_filters_as_parameters(fake_client):
    """The key is in a header only."""
    provider, client = provider_of(fake_client((FIXTURES / "tavily_search.json").read_bytes()))
    query = Query(
        "whales",
        7,
        time="m",
        topic="news",
        include_domains=("a.org",),
        exclude_domains=("b.org", "c.org/x"),
    )
    found = await provider.search(query, actor=ACTOR, timeout_s=60.0)
    assert found.results == (
        Result("Songs of blue whales", "https://whales.example.org/songs",
               "Blue whales sing in low notes.", "2026-03-02T10:00:00Z"),
        Result("", "https://en.encyclopedia.example/wiki/Blue_whale"),
    )  # fmt: skip
    (request,) = client.requests
    body = json.loads(request.content)
    assert request.url == "https://api.tavily.example/search"
    assert request.headers["Authorization"] == "Bearer secret"
    assert (body["query"], body["max_results"], body["topic"]) == ("whales", 7, "news")
    assert (body["time_range"], body["include_domains"], body["exclude_domains"]) == (
        "month", ["a.org"], ["b.org"],
    )  # fmt: skip
    assert "secret" not in str(body)


@pytest.mark.parametrize(
    ("usage", "credits"), [(b'{"credits": 2}', 2.0), (b'{"credits": "x"}', 1.0), (b"null", 1.0)]
)
async def test_key_shows_the_credits_that_it_has_used(fake_client, usage, credits):
    """Those that Tavily reports, else those of its prices; to whoever looks at the process."""
    body = b'{"results": [], "usage": ' + usage + b"}"
    key = f"key of test {credits}, {len(usage)}"  # keys of other tests may still be there
    provider = tavily.Tavily(fake_client(body, body), "https://api.tavily.example/", [key])
    name = f"Tavily-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    for number in (1, 2):
        await provider.search(Query("cats", 7), actor=ACTOR, timeout_s=60.0)
        used = [part.numbers["credits"] for part in live_parts() if part.name == name]
        assert used == [number * credits]


async def test_limits_of_the_api_become_notes(fake_client):
    """400 characters and 20 results."""
    provider, client = provider_of(fake_client(b'{"results": []}'))
    found = await provider.search(Query("word " * 150, 25), actor=ACTOR, timeout_s=60.0)
    body = json.loads(client.requests[0].content)
    assert (len(body["query"]), body["max_results"]) == (399, 20)
    assert len(found.notes) == 2
    assert "first 399 characters" in found.notes[0]


async def test_extraction_has_the_texts_that_there_are(fake_client):
    """Neither those that failed, nor empty ones."""
    provider, _ = provider_of(fake_client((FIXTURES / "tavily_extract.json").read_bytes()))
    urls = [f"https://whales.example.org/{name}" for name in ("gone", "songs", "empty")]
    found = await provider.extract(urls, timeout_s=60.0)
    assert found == {urls[1]: "# Songs\n\nBlue whales sing."}


@pytest.mark.parametrize(
    ("status", "body", "code", "said"),
    [
        (400, {"detail": {"error": "Invalid topic."}}, "invalid_argument", "Invalid topic."),
        (422, {"detail": [{"loc": ["body", "query"], "msg": "Input should be a string"}]},
         "invalid_argument", "body.query: Input should be a string"),
        (400, {"detail": {"error": "All URLs failed.", "failed_results": [{"url": "x", "error": "no"}]}},
         "invalid_argument", "All URLs failed. x: no"),
        (400, {"error": "keyless"}, "invalid_argument", "keyless"),
        (400, [], "invalid_argument", "no reason given"),
        (401, {"detail": {"error": "Unauthorized"}}, "upstream_failed", "TAVILY_API_KEYS"),
        (432, {}, "quota_exhausted", "plan's"),
        (433, {}, "quota_exhausted", "pay-as-you-go"),
        (429, {}, "upstream_limited", "in 1 s"),
        (404, {"detail": {"error": "Not Found"}}, "upstream_failed", "SEARCHBUS_TAVILY_URL"),
        (500, {}, "upstream_failed", "HTTP 500"),
    ],
)  # fmt: skip
def test_errors_have_their_codes(status, body, code, said):
    """With Tavily's own words where they help the caller."""
    fault = tavily.Tavily.fault_of(HttpReply(status, json.dumps(body).encode()))
    assert fault.code == code
    assert said in fault.failure.message


def test_success_is_not_a_fault():
    """Nor is a body that is not JSON an exception."""
    assert tavily.Tavily.fault_of(HttpReply(200, b"")) is None
    assert "no reason given" in tavily.Tavily.fault_of(HttpReply(400, b"<html>")).failure.message


def test_recorded_replies_and_errors_decode(reference):
    """Recorded and documented replies of every shape."""
    folder = reference / "fixtures" / "tavily"
    for path in folder.glob("*search*.json"):
        answer = msgspec.json.decode(path.read_bytes(), type=tavily.TavilyReply)
        assert answer.results
        assert all(row["url"] for row in answer.results)
    extracted = msgspec.json.decode(
        next(folder.glob("extract_*.json")).read_bytes(), type=tavily.ExtractReply
    )
    assert len(extracted.results) == 3
    codes = {400: "invalid_argument", 401: "upstream_failed", 422: "invalid_argument",
             429: "upstream_limited", 432: "quota_exhausted", 433: "quota_exhausted",
             500: "upstream_failed"}  # fmt: skip
    for path in folder.glob("*error*.json"):
        status = int(path.stem.rsplit("_", 1)[-1])
        fault = tavily.Tavily.fault_of(HttpReply(status, path.read_bytes()))
        assert fault is not None
        assert fault.code == codes[status]
        json.dumps(fault.failure.message)
    invalid = tavily.Tavily.fault_of(
        HttpReply(400, (folder / "real_error_extract_all_urls_invalid_400.json").read_bytes())
    )
    assert "All URLs failed validation" in invalid.failure.message

"""Brave Search: requests, pages, errors."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor
from searchbus_upstream import HttpReply
from searchbus_web.providers.base import Query
from searchbus_web.providers.brave import Brave


def rows(count: int, start: int = 0) -> list[dict[str, str]]:
    return [
        {"url": f"http://a{n}.org/", "title": f"t{n}", "description": "d",
         "page_age": "2026-03-01T00:00:00"}
        for n in range(start, start + count)
    ]  # fmt: skip


async def search(client, query: Query):
    provider = Brave(client, "https://api.brave.example/res/v1/", ["secret"])
    assert provider.usable
    return await provider.search(query, actor=Actor(subject="a"), timeout_s=60.0)


async def test_search_has_filters_as_operators(fake_client):
    """Freshness has a parameter; the key is in a header."""
    client = fake_client({"web": {"results": rows(3)}})
    query = Query("whales", 3, time="w", include_domains=("a.org",), exclude_domains=("b.org",))
    found = await search(client, query)
    assert [r.url for r in found.results] == ["http://a0.org/", "http://a1.org/", "http://a2.org/"]
    assert found.results[0].published_at == "2026-03-01T00:00:00Z"
    (request,) = client.requests
    assert request.url == "https://api.brave.example/res/v1/web/search"
    assert request.headers["X-Subscription-Token"] == "secret"
    assert (request.params["q"], request.params["freshness"], request.params["count"]) == (
        "whales site:a.org -site:b.org", "pw", "3",
    )  # fmt: skip


async def test_query_is_cut_before_its_filters(fake_client):
    """The API takes 400 characters; a note says so."""
    client = fake_client({"web": {"results": []}})
    found = await search(client, Query("whales " * 70, 5, include_domains=("a.org",)))
    sent = client.requests[0].params["q"]
    assert len(sent) <= 400
    assert sent.endswith("whales site:a.org")
    assert found.notes == ("Brave Search searched for the first 384 characters of the query.",)


async def test_second_page_is_requested_where_one_is_not_enough(fake_client):
    """But not a third."""
    client = fake_client({"web": {"results": rows(20)}}, {"web": {"results": rows(20, 20)}})
    found = await search(client, Query("whales", 25))
    assert len(found.results) == 25
    assert [request.params["offset"] for request in client.requests] == ["0", "1"]


async def test_news_have_an_endpoint_of_their_own(fake_client):
    """Their results are at the top level."""
    client = fake_client({"results": rows(5)})
    found = await search(client, Query("whales", 5, topic="news"))
    assert len(found.results) == 5
    assert client.requests[0].url.endswith("/news/search")


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (400, "invalid_argument", "refuses the query"),
        (422, "invalid_argument", "refuses the query"),
        (401, "upstream_failed", "SEARCHBUS_BRAVE_API_KEYS"),
        (429, "upstream_limited", "Try again in 1 s"),
        (503, "upstream_failed", "HTTP 503"),
    ],
)
def test_errors_have_their_codes(status, code, said):
    """And say what to do."""
    fault = Brave.fault_of(HttpReply(status, b""))
    assert fault.code == code
    assert said in fault.failure.message

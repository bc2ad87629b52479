"""SearXNG: requests, pages, engines that fail."""

from __future__ import annotations

import pytest

from searchbus_contracts import Actor, Fault
from searchbus_upstream import HttpReply
from searchbus_web.providers.base import Query
from searchbus_web.providers.searxng import SearXNG


def page(*numbers: int, failed: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "results": [
            {"url": f"http://a{n}.org/", "title": f"t{n}", "content": "c", "publishedDate": None}
            for n in numbers
        ],
        "unresponsive_engines": [[name, "timeout"] for name in failed],
    }


async def search(client, query: Query):
    provider = SearXNG(client, "https://searx.example")
    assert provider.usable
    return await provider.search(query, actor=Actor(subject="a"), timeout_s=60.0)


async def test_pages_are_requested_until_there_are_enough_results(fake_client):
    """A URL counts once."""
    client = fake_client(page(1, 2), page(2, 3))
    found = await search(client, Query("whales", 3, time="d", topic="news"))
    assert [r.title for r in found.results] == ["t1", "t2", "t3"]
    first, second = (request.params for request in client.requests)
    assert (first["pageno"], second["pageno"]) == ("1", "2")
    assert (first["format"], first["time_range"], first["categories"]) == ("json", "day", "news")


async def test_page_without_new_results_is_the_last(fake_client):
    """There may be fewer than requested."""
    client = fake_client(page(1), page(1))
    assert len((await search(client, Query("whales", 9))).results) == 1


async def test_failed_engines_become_a_note(fake_client):
    """Without any result they are a failure."""
    found = await search(fake_client(page(1, failed=("x", "y"))), Query("whales", 1))
    assert found.notes == ("SearXNG's engines that failed: x, y.",)
    with pytest.raises(Fault, match="engines fail: x"):
        await search(fake_client(page(failed=("x",))), Query("whales", 1))


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "upstream_failed", "search.formats"),
        (429, "upstream_limited", "Try again in 5 s"),
        (400, "upstream_failed", "SEARCHBUS_SEARXNG_URL"),
        (401, "upstream_failed", "SEARCHBUS_SEARXNG_URL"),
        (404, "upstream_failed", "HTTP 404"),
    ],
)
def test_errors_have_their_codes(status, code, said):
    """And say what to do."""
    fault = SearXNG.fault_of(HttpReply(status, b""))
    assert fault.code == code
    assert said in fault.failure.message

"""The DuckDuckGo service as a provider."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from searchbus_contracts import Actor
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_web.providers.base import Query, Result
from searchbus_web.providers.ddg import DuckDuckGoFleet, EngineProvider


class FakeBus:
    """Keeps the requests."""

    subjects = SimpleNamespace(endpoint=lambda service, verb: f"{service}.{verb}")

    def __init__(self, published_at: str) -> None:
        self.requests: list[WebSearchRequest] = []
        self.published_at = published_at

    async def request(self, subject, request, reply_type, **options):
        assert subject in ("ddg.search", "ddg.engine")
        assert options["service"] == "ddg"
        self.requests.append(request)
        row = WebResult(title="t", url="http://a.org/", snippet="s", published_at=self.published_at)
        return WebSearchReply(
            results=(row,), provider="duckduckgo", fetched_at_ms=1, note="Old.", stale=True
        )


async def search(query: Query, published_at: str = "2026-03-02"):
    bus = FakeBus(published_at)
    found = await DuckDuckGoFleet(bus).search(query, actor=Actor(subject="a"), timeout_s=60.0)
    return found, bus.requests[0]


async def test_search_has_filters_as_operators():
    """Query and limit are cut to what the service takes; notes and staleness are passed on."""
    found, request = await search(Query("x" * 600, 40, time="m"))
    assert found.results == (Result("t", "http://a.org/", "s", "2026-03-02"),)
    cut = "DuckDuckGo searched for the first 499 characters of the query."
    assert (found.notes, found.stale) == ((cut, "Old."), True)
    assert (len(request.query), request.limit, request.time) == (499, 30, "m")
    _, request = await search(Query("cats", 5, include_domains=("a.org",)))
    assert request.query == "cats site:a.org"
    found, request = await search(Query("cats " * 100, 5, include_domains=("a.org",)))
    assert request.query.endswith("cats cats site:a.org")
    assert "of the query" in found.notes[0]


@pytest.mark.parametrize(("name", "sent"), [("mojeek", 495), ("wikipedia", 494)])
async def test_an_engine_has_its_filters_whole_or_none(name, sent):
    """A note tells what was cut, also of one without domains."""
    bus = FakeBus("2026-03-02")
    query = Query("cats " * 120, 5, include_domains=("a.org",))
    found = await EngineProvider(bus, name).search(query, actor=Actor(), timeout_s=60.0)
    (request,) = bus.requests
    assert len(request.query) == sent
    assert request.query.endswith(" site:a.org") == (name == "mojeek")
    assert "characters of the query" in found.notes[0]


async def test_impossible_date_of_a_page_is_none():
    """It could not be held against a time range."""
    found, _ = await search(Query("cats", 5), published_at="2026-13-45")
    assert found.results[0].published_at is None


async def test_news_are_recent_results():
    """Of a week, or of the time that the caller gives."""
    _, request = await search(Query("cats", 5, topic="news"))
    assert request.time == "w"
    _, request = await search(Query("cats", 5, topic="news", time="d"))
    assert request.time == "d"

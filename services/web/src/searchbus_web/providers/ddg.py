"""The DuckDuckGo service over the bus: the default where no API key is configured."""

from __future__ import annotations

from searchbus_bus import Bus
from searchbus_contracts import Actor
from searchbus_contracts.web import WebSearchReply, WebSearchRequest

from ..results import Result, iso_date
from .base import NEWS_TIME, Query, SearchResults
from .operators import with_domains

__all__ = ["DuckDuckGoFleet"]

SERVICE = "ddg"
_MAX_RESULTS = 30
_MAX_QUERY_CHARS = 499


class DuckDuckGoFleet:
    """The provider; the service has its own pace, cache and breakers."""

    name = "ddg"
    group = "bing"
    weight = 0.8
    usable = True
    has_news = False

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`."""
        text = with_domains(query)[:_MAX_QUERY_CHARS]
        time = query.time
        if query.topic == "news":
            time = time or NEWS_TIME
        reply = await self._bus.request(
            self._bus.subjects.endpoint(SERVICE, "search"),
            WebSearchRequest(query=text, limit=min(query.limit, _MAX_RESULTS), time=time),
            WebSearchReply,
            service=SERVICE,
            timeout_s=timeout_s,
            actor=actor,
        )
        rows = tuple(
            Result(r.title, r.url, r.snippet, iso_date(r.published_at)) for r in reply.results
        )
        return SearchResults(rows, (reply.note,) if reply.note else (), stale=reply.stale)

"""The engines without a key, which the DuckDuckGo service asks from its egress addresses."""

from __future__ import annotations

from searchbus_bus import Bus
from searchbus_contracts import Actor
from searchbus_contracts.engines import ENGINES, EngineRequest
from searchbus_contracts.web import WebSearchReply

from .base import Query, Result, SearchResults, iso_date
from .ddg import SERVICE

_MAX_QUERY_CHARS = 499


class EngineProvider:
    """One engine of the table as a provider, except ddg, which is a provider of its own."""

    def __init__(self, bus: Bus, name: str) -> None:
        facts = ENGINES[name]
        self._bus = bus
        self.name = name
        self.group = facts.group
        self.weight = facts.weight
        self.has_news = facts.topic == "news"
        self.filters = facts.filters
        self.max_pages = facts.max_pages

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`."""
        text = query.with_operators() if "domains" in self.filters else query.text
        reply = await self._bus.request(
            self._bus.subjects.endpoint(SERVICE, "engine"),
            EngineRequest(
                engine=self.name,
                query=text[:_MAX_QUERY_CHARS],
                page=query.page,
                region=query.region,
                language=query.language,
                time=query.time,
                safe=query.safe,
            ),
            WebSearchReply,
            service=SERVICE,
            timeout_s=timeout_s,
            actor=actor,
        )
        rows = tuple(
            Result(r.title, r.url, r.snippet, iso_date(r.published_at)) for r in reply.results
        )
        return SearchResults(rows, more=reply.more)

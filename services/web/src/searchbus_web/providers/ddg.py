"""The engines without a key, which the DuckDuckGo service asks from its egress addresses.

DuckDuckGo itself is the default where no other provider is configured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from searchbus_bus import Bus
from searchbus_contracts import Actor
from searchbus_contracts.engines import ENGINES, EngineRequest, ddg_region
from searchbus_contracts.web import WebSearchReply, WebSearchRequest
from searchbus_runtime import Process

from .base import NEWS_TIME, Query, Result, SearchResults, iso_date

SERVICE = "ddg"
_MAX_RESULTS = 30
_PAGE_ROWS = 10
_MAX_QUERY_CHARS = 499


class EngineProvider:
    """One engine of the table as a provider, except ddg, which is the provider below."""

    def __init__(self, bus: Bus, name: str) -> None:
        facts = ENGINES[name]
        self._bus = bus
        self.name = name
        self.title = facts.title
        self.group = facts.group
        self.weight = facts.weight
        self.has_news = facts.topic == "news"
        self.filters = facts.filters
        self.max_pages = facts.max_pages

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`."""
        if "domains" not in self.filters:
            query = replace(query, include_domains=(), exclude_domains=())
        text, notes = query.with_operators(self.title, _MAX_QUERY_CHARS)
        request = EngineRequest(
            engine=self.name,
            query=text,
            page=query.page,
            region=query.region,
            language=query.language,
            time=query.time,
            safe=query.safe,
        )
        reply, rows = await _asked(self._bus, "engine", request, actor, timeout_s)
        return SearchResults(rows, tuple(notes), more=reply.more)


class DuckDuckGoFleet(EngineProvider):
    """DuckDuckGo's web search; the service has its own pace, cache and breakers for it."""

    name = SERVICE
    title = ENGINES[SERVICE].title
    filters = ENGINES[SERVICE].filters
    costly = False

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, SERVICE)

    @classmethod
    def required_setting(cls) -> None:
        """It has no settings here."""

    @classmethod
    async def open(cls, process: Process[Any]) -> Self:
        """The provider on the connection of the process."""
        return cls(process.bus)

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`.

        DuckDuckGo names its next page in the page before: a later page is the end of a longer list.
        """
        before = _PAGE_ROWS * (query.page - 1)
        text, notes = query.with_operators(self.title, _MAX_QUERY_CHARS)
        request = WebSearchRequest(
            query=text,
            limit=min(before + query.limit, _MAX_RESULTS),
            region=ddg_region(query.region, query.language),
            safe=query.safe,
            time=query.time or (NEWS_TIME if query.topic == "news" else ""),
        )
        reply, rows = await _asked(self._bus, "search", request, actor, timeout_s)
        more = before + query.limit <= len(rows) < _MAX_RESULTS
        notes += [reply.note] if reply.note else []
        return SearchResults(rows[before:], tuple(notes), stale=reply.stale, more=more)


async def _asked(
    bus: Bus,
    verb: str,
    request: WebSearchRequest | EngineRequest,
    actor: Actor,
    timeout_s: float,
) -> tuple[WebSearchReply, tuple[Result, ...]]:
    """What the service replies, and its results; raises Fault."""
    reply = await bus.request(
        bus.subjects.endpoint(SERVICE, verb), request, WebSearchReply,
        service=SERVICE, timeout_s=timeout_s, actor=actor,
    )  # fmt: skip
    rows = tuple(Result(r.title, r.url, r.snippet, iso_date(r.published_at)) for r in reply.results)
    return reply, rows

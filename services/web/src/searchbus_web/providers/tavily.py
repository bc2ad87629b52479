"""Tavily (https://api.tavily.com): search and extract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
from opentelemetry import metrics
from pydantic import SecretStr

from searchbus_contracts import Actor, ErrorCode
from searchbus_runtime import ServiceSettings
from searchbus_upstream import HttpRequest

from .api import ApiProvider, RequestsPerMinute, RowsReply
from .base import TIME_WORDS, Query, Result, SearchResults, iso_date, shortened

_MAX_RESULTS = 20
_MAX_QUERY_CHARS = 400
_WRONG = (
    ErrorCode.INVALID_ARGUMENT,
    "Tavily refuses the request: {reason} Change the arguments that it names, or use another "
    "search tool.",
)
_USED_UP = "limit at Tavily is used up. Use another search tool."
_REFUSALS = {
    400: _WRONG,
    422: _WRONG,
    432: (ErrorCode.QUOTA_EXHAUSTED, f"The plan's {_USED_UP}"),
    433: (ErrorCode.QUOTA_EXHAUSTED, f"The pay-as-you-go {_USED_UP}"),
}
_credits = metrics.get_meter("searchbus.web").create_counter(
    "searchbus.tavily.credits", description="Credits used, as reported by Tavily or by its prices."
)


class TavilySettings(ServiceSettings):
    """Settings of Tavily."""

    tavily_api_keys: tuple[SecretStr, ...] = ()
    """Keys of Tavily, used in rotation."""
    tavily_url: str = "https://api.tavily.com"
    """Address of Tavily."""
    tavily_rpm: RequestsPerMinute = 100.0


class _Row(msgspec.Struct):
    url: str
    title: str | None = None
    content: str | None = None
    published_date: Any = None


class TavilyReply(RowsReply):
    """The reply of /search, as far as it is used."""

    usage: Any = None


class _Page(msgspec.Struct):
    url: str
    raw_content: str | None = None


class ExtractReply(RowsReply):
    """The reply of /extract."""

    usage: Any = None


class Tavily(ApiProvider):
    """The provider and its page extraction."""

    name = group = "tavily"
    title = "Tavily"
    weight = 1.0
    refusals = _REFUSALS

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`."""
        text, notes = shortened(query.text, self.title, _MAX_QUERY_CHARS)
        body: dict[str, Any] = {
            "query": text,
            "search_depth": "basic",
            "topic": query.topic,
            "max_results": min(query.limit, _MAX_RESULTS),
            "include_answer": False,
            "include_raw_content": False,
            "include_published_date": True,
            "include_usage": True,
        }
        if query.time:
            body["time_range"] = TIME_WORDS[query.time]
        if query.include_domains:
            body["include_domains"] = list(query.include_domains[:300])
        # The API takes paths only in include_domains; results are filtered afterwards as well.
        if query.excluded_hosts:
            body["exclude_domains"] = query.excluded_hosts[:150]
        if query.limit > _MAX_RESULTS:
            notes.append(f"Tavily gives at most {_MAX_RESULTS} results.")
        reply = await self.call(
            lambda key: self._request("/search", key, body), TavilyReply, timeout_s=timeout_s
        )
        rows = tuple(
            Result(row.title or "", row.url, row.content or "", iso_date(row.published_date))
            for row in self.read_rows(reply.results, _Row)
        )
        return SearchResults(rows, tuple(notes))

    async def extract(self, urls: Sequence[str], *, timeout_s: float) -> dict[str, str]:
        """URL → text of the pages that it could read; raises Fault."""
        body = {
            "urls": list(urls), "extract_depth": "basic", "format": "markdown",
            "include_images": False, "include_usage": True,
        }  # fmt: skip
        reply = await self.call(
            lambda key: self._request("/extract", key, body), ExtractReply, timeout_s=timeout_s
        )
        pages = self.read_rows(reply.results, _Page)
        return {p.url: p.raw_content for p in pages if p.raw_content and p.url in urls}

    def _request(self, path: str, key: str, body: dict[str, Any]) -> HttpRequest:
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "X-Client-Name": "searchbus",
        }
        content = msgspec.json.encode(body)
        return HttpRequest("POST", f"{self._base_url}{path}", headers=headers, content=content)

    @classmethod
    def cost_of(cls, reply: TavilyReply | ExtractReply) -> float:
        """The credits that Tavily reports, else those of its price list."""
        usage = reply.usage
        cost = usage.get("credits") if isinstance(usage, dict) else None
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost):
            cost = 1.0 if isinstance(reply, TavilyReply) else len(reply.results) / 5
        _credits.add(max(0.0, cost))
        return max(0.0, cost)

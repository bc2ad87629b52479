"""The JSON API of a SearXNG instance (`/search?format=json`)."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_runtime import ServiceSettings
from searchbus_upstream import HttpRequest

from .api import ApiProvider, RequestsPerMinute, RowsReply
from .base import TIME_WORDS, Query, Result, SearchResults, iso_date

_MAX_PAGES = 3
_SAFE = {"": "0", "off": "0", "moderate": "1", "strict": "2"}
_REFUSED = "SearXNG refuses the request. The operator of this service has to allow the JSON format "
_REFUSALS = {403: (ErrorCode.UPSTREAM_FAILED, f"{_REFUSED}in its settings (search.formats).")}


class SearXNGSettings(ServiceSettings):
    """Settings of the operator's own SearXNG instance."""

    searxng_url: str | None = None
    """Address of your own SearXNG instance, with the JSON format allowed."""
    searxng_rpm: RequestsPerMinute = 0.0


class _Row(msgspec.Struct):
    url: str
    title: str | None = None
    content: str | None = None
    publishedDate: Any = None


class _Reply(RowsReply):
    unresponsive_engines: Any = None


class SearXNG(ApiProvider):
    """The provider. It is a metasearch itself and counts as one group."""

    name = group = "searxng"
    title = "SearXNG"
    weight = 0.9
    filters = ("language", "safe", "time", "domains")
    keyed = costly = False
    refusals = _REFUSALS
    limited_s = 5.0

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`; requests further pages until there are enough results."""
        text, notes = query.with_operators(self.title)
        rows: dict[str, Result] = {}
        failed: set[str] = set()
        for page in range(1, _MAX_PAGES + 1):
            params = {
                "q": text, "format": "json", "pageno": str(page),
                "categories": query.topic, "safesearch": _SAFE[query.safe],
            }  # fmt: skip
            if query.time:
                params["time_range"] = TIME_WORDS[query.time]
            if query.language:
                params["language"] = "-".join(filter(None, (query.language, query.region.upper())))
            reply = await self.call(
                functools.partial(_request, f"{self._base_url}/search", params),
                _Reply,
                timeout_s=timeout_s,
            )
            failed |= _names(reply.unresponsive_engines)
            before = len(rows)
            for row in self.read_rows(reply.results, _Row):
                found = Result(
                    row.title or "", row.url, row.content or "", iso_date(row.publishedDate)
                )
                rows.setdefault(row.url, found)
            if len(rows) >= query.limit or len(rows) == before:
                break
        if not rows and failed:
            engines = ", ".join(sorted(failed))
            raise Fault(
                ErrorCode.UPSTREAM_FAILED,
                f"SearXNG's engines fail: {engines}. Try again shortly.",
            )
        if failed:
            notes.append(f"SearXNG's engines that failed: {', '.join(sorted(failed))}.")
        return SearchResults(tuple(rows.values())[: query.limit], tuple(notes))


def _names(engines: Any) -> set[str]:
    """The names of [[name, reason], …]; empty for a list that cannot be read."""
    listed = engines if isinstance(engines, list) else []
    return {str(engine[0]) for engine in listed if isinstance(engine, list) and engine}


def _request(url: str, params: dict[str, str], key: str) -> HttpRequest:
    """`key` is not used: the instance is the operator's own."""
    return HttpRequest("GET", url, params=params, headers={"Accept": "application/json"})

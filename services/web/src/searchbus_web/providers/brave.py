"""Brave Search API (https://api.search.brave.com/res/v1): web and news."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from pydantic import SecretStr

from searchbus_contracts import Actor, ErrorCode
from searchbus_runtime import ServiceSettings
from searchbus_upstream import HttpRequest

from .api import ApiProvider, RequestsPerMinute
from .base import Query, Result, SearchResults, iso_date

_TIME = {"d": "pd", "w": "pw", "m": "pm", "y": "py"}
_MAX_QUERY_CHARS = 400
_PAGE = {"general": 20, "news": 50}


class BraveSettings(ServiceSettings):
    """Settings of Brave Search."""

    brave_api_keys: tuple[SecretStr, ...] = ()
    """Keys of Brave Search, used in rotation."""
    brave_url: str = "https://api.search.brave.com/res/v1"
    """Address of Brave Search."""
    brave_rpm: RequestsPerMinute = 60.0


class _Row(msgspec.Struct):
    url: str
    title: str | None = None
    description: str | None = None
    page_age: Any = None


class _Rows(msgspec.Struct):
    results: list[Any]


class _Reply(msgspec.Struct):
    """Rows of the web are in `web`, which is absent without rows; those of news in `results`."""

    type: Any = None
    web: _Rows | None = None
    results: list[Any] | None = None

    def __post_init__(self) -> None:
        if self.web is None and self.results is None and self.type not in ("search", "news"):
            raise ValueError("no rows")

    @property
    def rows(self) -> list[Any]:
        return self.web.results if self.web is not None else self.results or []


class Brave(ApiProvider):
    """The provider."""

    name = group = "brave"
    title = "Brave Search"
    weight = 1.0
    filters = ("region", "language", "safe", "time", "domains")
    refusals = dict.fromkeys(
        (400, 422),
        (ErrorCode.INVALID_ARGUMENT, "Brave Search refuses the query. Rephrase or shorten it."),
    )

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`; requests a second page, of one credit each, where one is not enough."""
        size = _PAGE[query.topic]
        path = "/news/search" if query.topic == "news" else "/web/search"
        text, notes = query.with_operators(self.title, _MAX_QUERY_CHARS)
        rows: list[Result] = []
        for page in range(2):
            params = {
                "q": text, "count": str(min(size, query.limit)),
                "offset": str(page), "text_decorations": "false",
            }  # fmt: skip
            if query.time:
                params["freshness"] = _TIME[query.time]
            wanted = {
                "country": query.region.upper(),
                "search_lang": query.language,
                "safesearch": query.safe,
            }
            params |= {name: value for name, value in wanted.items() if value}
            reply = await self.call(
                functools.partial(_request, f"{self._base_url}{path}", params),
                _Reply,
                timeout_s=timeout_s,
            )
            rows += [
                Result(row.title or "", row.url, row.description or "", iso_date(row.page_age))
                for row in self.read_rows(reply.rows, _Row)
            ]
            if len(rows) >= query.limit or len(reply.rows) < size:
                break
        return SearchResults(tuple(rows[: query.limit]), tuple(notes))

    @classmethod
    def cost_of(cls, reply: Any) -> float:
        """Each request is paid for alike."""
        return 1.0


def _request(url: str, params: dict[str, str], key: str) -> HttpRequest:
    headers = {"Accept": "application/json", "X-Subscription-Token": key}
    return HttpRequest("GET", url, headers=headers, params=params)

"""Brave Search API (https://api.search.brave.com/res/v1): web and news."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_upstream import Reply, Request

from ..results import Result, iso_date
from .account import AccountProvider
from .base import Query, SearchResults
from .faults import key_refused, limited, unexpected_status
from .operators import with_domains
from .rows import read_rows

__all__ = ["Brave", "fault_of"]

_TIME = {"d": "pd", "w": "pw", "m": "pm", "y": "py"}
_PAGE = {"general": 20, "news": 50}


class _Row(msgspec.Struct):
    url: str
    title: str | None = None
    description: str | None = None
    page_age: Any = None


class _Rows(msgspec.Struct):
    results: list[Any]


class _Reply(msgspec.Struct):
    """Rows of the web are in `web`, which is absent where there are none; those of news are not."""

    type: Any = None
    web: _Rows | None = None
    results: list[Any] | None = None

    def __post_init__(self) -> None:
        if self.web is None and self.results is None and self.type not in ("search", "news"):
            raise ValueError("no rows")

    @property
    def rows(self) -> list[Any]:
        return self.web.results if self.web is not None else self.results or []


class Brave(AccountProvider):
    """The provider."""

    name = "brave"
    group = "brave"
    weight = 1.0

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """See `Provider`; requests a second page where one is not enough."""
        size = _PAGE[query.topic]
        path = "/news/search" if query.topic == "news" else "/web/search"
        rows: list[Result] = []
        for page in range(2):
            params = {
                "q": with_domains(query)[:400], "count": str(min(size, query.limit)),
                "offset": str(page), "text_decorations": "false",
            }  # fmt: skip
            if query.time:
                params["freshness"] = _TIME[query.time]
            reply = await self._account.call(
                functools.partial(_request, f"{self._base_url}{path}", params),
                _Reply,
                timeout_s=timeout_s,
            )
            found = reply.rows
            rows += [
                Result(row.title or "", row.url, row.description or "", iso_date(row.page_age))
                for row in read_rows("Brave Search", found, _Row)
            ]
            if len(rows) >= query.limit or len(found) < size:
                break
        return SearchResults(tuple(rows[: query.limit]))


def _request(url: str, params: dict[str, str], key: str) -> Request:
    headers = {"Accept": "application/json", "X-Subscription-Token": key}
    return Request("GET", url, headers=headers, params=params)


def fault_of(reply: Reply) -> Fault | None:
    """The failure that a reply stands for."""
    if reply.status < 300:
        return None
    if reply.status in (400, 422):
        return Fault(
            ErrorCode.INVALID_ARGUMENT, "Brave Search refuses the query. Rephrase or shorten it."
        )
    if reply.status in (401, 403):
        return key_refused("Brave Search", "SEARCHBUS_BRAVE_API_KEYS")
    if reply.status == 429:
        return limited("Brave Search", reply)
    return unexpected_status("Brave Search", reply, "SEARCHBUS_BRAVE_URL")

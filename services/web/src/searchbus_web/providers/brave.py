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

__all__ = ["Brave", "fault_of"]

_TIME = {"d": "pd", "w": "pw", "m": "pm", "y": "py"}
_PAGE = {"general": 20, "news": 50}


class _Row(msgspec.Struct):
    url: str = ""
    title: str | None = None
    description: str | None = None
    page_age: Any = None


class _Rows(msgspec.Struct):
    results: list[_Row] = []


class _Reply(msgspec.Struct):
    web: _Rows | None = None
    results: list[_Row] = []


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
            found = reply.web.results if reply.web is not None else reply.results
            rows += [
                Result(row.title or "", row.url, row.description or "", iso_date(row.page_age))
                for row in found
                if row.url
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
        return Fault(ErrorCode.INVALID_ARGUMENT, "Brave Search refuses the query.")
    if reply.status in (401, 403):
        return key_refused("Brave Search", "SEARCHBUS_BRAVE_API_KEYS")
    if reply.status == 429:
        return limited("Brave Search", reply)
    return unexpected_status("Brave Search", reply, "SEARCHBUS_BRAVE_URL")

"""SearXNG's JSON API (`/search?format=json`), of an instance of one's own."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_upstream import Reply, retry_after_s

from ..results import Result, iso_date
from .account import Account
from .base import Answer, Query
from .operators import with_domains

__all__ = ["SearXNG", "judge"]

_TIME = {"d": "day", "w": "week", "m": "month", "y": "year"}
_MAX_PAGES = 3


class _Row(msgspec.Struct):
    url: str = ""
    title: str | None = None
    content: str | None = None
    publishedDate: Any = None


class _Answer(msgspec.Struct):
    results: list[_Row] = []
    unresponsive_engines: list[Any] = []


class SearXNG:
    """The provider. A metasearch of its own: it counts as one group."""

    name = "searxng"
    group = "searxng"
    weight = 0.9

    def __init__(self, account: Account, base_url: str) -> None:
        self._account = account
        self._base_url = base_url.rstrip("/")

    @property
    def usable(self) -> bool:
        """See Provider."""
        return self._account.usable

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> Answer:
        """See Provider; further pages until there are enough."""
        rows: dict[str, Result] = {}
        silent: set[str] = set()
        for page in range(1, _MAX_PAGES + 1):
            params = {
                "q": with_domains(query), "format": "json", "pageno": str(page),
                "categories": query.topic, "safesearch": "0",
            }  # fmt: skip
            if query.time:
                params["time_range"] = _TIME[query.time]
            request = {
                "method": "GET", "url": f"{self._base_url}/search", "params": params,
                "headers": {"Accept": "application/json"},
            }  # fmt: skip
            answer: _Answer = await self._account.call(
                functools.partial(_same, request), _Answer, timeout_s=timeout_s
            )
            silent |= {str(e[0]) for e in answer.unresponsive_engines if isinstance(e, list) and e}
            before = len(rows)
            for row in answer.results:
                if row.url:
                    found = Result(
                        row.title or "", row.url, row.content or "", iso_date(row.publishedDate)
                    )
                    rows.setdefault(row.url, found)
            if len(rows) >= query.limit or len(rows) == before:
                break
        if not rows and silent:
            engines = ", ".join(sorted(silent))
            raise Fault(ErrorCode.UPSTREAM_FAILED, f"SearXNG's engines fail: {engines}.")
        notes = (f"SearXNG's engines that failed: {', '.join(sorted(silent))}.",) if silent else ()
        return Answer(tuple(rows.values())[: query.limit], notes)


def _same(request: dict[str, Any], key: str) -> dict[str, Any]:
    """An instance of one's own needs no key."""
    return request


def judge(reply: Reply) -> Fault | None:
    """The failure behind a status."""
    if reply.status < 300:
        return None
    if reply.status == 403:
        return Fault(
            ErrorCode.UPSTREAM_FAILED,
            "SearXNG refuses: its settings must allow the JSON format (search.formats).",
            retryable=False,
        )
    if reply.status == 429:
        wait_s = retry_after_s(reply.headers) or 5.0
        return Fault(
            ErrorCode.UPSTREAM_LIMITED, f"SearXNG limits requests. Try again in {wait_s:.0f} s.",
            retry_after_ms=int(wait_s * 1000),
        )  # fmt: skip
    return Fault(
        ErrorCode.UPSTREAM_FAILED, f"SearXNG answers HTTP {reply.status}. Try again shortly.",
        retryable=reply.status >= 500,
    )  # fmt: skip

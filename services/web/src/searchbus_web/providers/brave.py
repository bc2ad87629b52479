"""Brave Search API (https://api.search.brave.com/res/v1): web and news."""

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

__all__ = ["Brave", "judge"]

_TIME = {"d": "pd", "w": "pw", "m": "pm", "y": "py"}
_PAGE = {"general": 20, "news": 50}


class _Row(msgspec.Struct):
    url: str = ""
    title: str | None = None
    description: str | None = None
    page_age: Any = None


class _Rows(msgspec.Struct):
    results: list[_Row] = []


class _Answer(msgspec.Struct):
    web: _Rows | None = None
    results: list[_Row] = []


class Brave:
    """The provider."""

    name = "brave"
    group = "brave"
    weight = 1.0

    def __init__(self, account: Account, base_url: str) -> None:
        self._account = account
        self._base_url = base_url.rstrip("/")

    @property
    def usable(self) -> bool:
        """See Provider."""
        return self._account.usable

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> Answer:
        """See Provider; a second page where one is not enough."""
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
            answer: _Answer = await self._account.call(
                functools.partial(_request, f"{self._base_url}{path}", params),
                _Answer,
                timeout_s=timeout_s,
            )  # fmt: skip
            found = answer.web.results if answer.web is not None else answer.results
            rows += [
                Result(row.title or "", row.url, row.description or "", iso_date(row.page_age))
                for row in found
                if row.url
            ]
            if len(rows) >= query.limit or len(found) < size:
                break
        return Answer(tuple(rows[: query.limit]))


def _request(url: str, params: dict[str, str], key: str) -> dict[str, Any]:
    headers = {"Accept": "application/json", "X-Subscription-Token": key}
    return {"method": "GET", "url": url, "params": params, "headers": headers}


def judge(reply: Reply) -> Fault | None:
    """The failure behind a status."""
    if reply.status < 300:
        return None
    if reply.status in (400, 422):
        return Fault(ErrorCode.INVALID_ARGUMENT, "Brave Search refuses the query.")
    if reply.status in (401, 403):
        return Fault(
            ErrorCode.UPSTREAM_FAILED,
            "Brave Search refuses the API key. Whoever runs this service has to set a valid one "
            "in SEARCHBUS_BRAVE_API_KEYS.",
            retryable=False,
        )
    if reply.status == 429:
        wait_s = retry_after_s(reply.headers) or 1.0
        return Fault(
            ErrorCode.UPSTREAM_LIMITED,
            f"Brave Search limits requests. Try again in {wait_s:.0f} s.",
            retry_after_ms=int(wait_s * 1000),
        )
    return Fault(
        ErrorCode.UPSTREAM_FAILED, f"Brave Search answers HTTP {reply.status}. Try again shortly.",
        retryable=reply.status >= 500,
    )  # fmt: skip

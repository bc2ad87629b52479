"""Marginalia Search: the small and old web, mostly in English.

Terms (https://about.marginalia-search.com/article/api/): an open interface; results are
CC BY-NC-SA 4.0. The key `public` has one limit for all its users together: HTTP 503 means that this
is used up.
"""

from __future__ import annotations

from typing import Any

import msgspec

from searchbus_contracts.engines import EngineRequest
from searchbus_upstream import HttpReply, HttpRequest

from .base import PROGRAM, Engine, EnginePage, read_json, result, results_of

_ROWS = 10


class _Reply(msgspec.Struct):
    results: list[Any]


class Marginalia(Engine):
    """See the module."""

    name = "marginalia"
    limiting = frozenset({403, 429, 503})
    url = "https://api2.marginalia-search.com/search"

    def request(self, query: EngineRequest) -> HttpRequest:
        """See `Engine`."""
        params = {
            "query": query.query, "count": str(_ROWS), "page": str(query.page),
            "nsfw": "0" if query.safe == "off" else "1",
        }  # fmt: skip
        headers = {"User-Agent": PROGRAM, "Accept": "application/json", "API-Key": "public"}
        return HttpRequest("GET", self.url, params=params, headers=headers)

    def parse(self, query: EngineRequest, reply: HttpReply) -> EnginePage:
        """See `Engine`."""
        found = read_json(reply, _Reply)
        rows = results_of(
            found.results,
            lambda row: result(row.get("url"), row.get("title"), row.get("description")),
        )
        return EnginePage(rows, more=len(found.results) >= _ROWS)

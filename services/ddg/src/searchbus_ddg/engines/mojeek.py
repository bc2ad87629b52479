"""Mojeek (https://www.mojeek.com): its result page, over an index of its own.

Terms: robots.txt disallows /search for programs, and an API is sold
(https://www.mojeek.com/services/search/web-search-api/). So it is off until the operator names it.

The page's form is known from public descriptions and was not tried against the live site: rows are
`ul.results-standard > li` with the link `a.ob`, the title `h2 a` and the snippet `p.s`; the next
page is linked from `div.pagination`. The first page must not have the parameter `s`: that alone
is limited. A refusal is HTTP 403 with words about automated queries.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from searchbus_contracts.engines import EngineRequest
from searchbus_upstream import HttpRequest

from .base import PageEngine

_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}


class Mojeek(PageEngine):
    """See the module."""

    name = "mojeek"
    url = "https://www.mojeek.com/search"
    row = "ul.results-standard > li"
    link = "a.ob"
    title = "h2 a"
    snippet = "p.s"
    next_page = 'div.pagination a[href*="s="]'
    empty = re.compile(r"no (?:pages|results) (?:were )?found", re.I)

    def request(self, query: EngineRequest) -> HttpRequest:
        """See `Engine`; language and region are cookies, as its own settings page sets them."""
        params = {"q": query.query, "safe": "0" if query.safe in ("", "off") else "1"}
        if query.page > 1:
            params["s"] = str(10 * (query.page - 1) + 1)
        if query.time:
            since = datetime.now(UTC) - timedelta(days=_DAYS[query.time])
            params["since"] = f"{since:%Y%m%d}"
        cookies = {"lb": query.language, "arc": query.region}
        return HttpRequest("GET", self.url, params=params, headers=self.headers(query, cookies))

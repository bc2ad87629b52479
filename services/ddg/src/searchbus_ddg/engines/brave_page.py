"""Brave Search (https://search.brave.com): its result page, over an index of its own.

Terms: robots.txt disallows /search for programs, and an API is sold, which is the provider `brave`.
So it is off until the operator names it.

The page's form is known from public descriptions and was not tried against the live site: rows are
`div.snippet[data-type="web"]` with a link around the title `.title`, and the snippet in
`.snippet-description` or, since 2025, `.generic-snippet`. A refusal is HTTP 429, or a page that
asks for a captcha.
"""

from __future__ import annotations

import re

from searchbus_contracts.engines import EngineRequest
from searchbus_upstream import HttpRequest

from .base import PageEngine

_TIME = {"d": "pd", "w": "pw", "m": "pm", "y": "py"}


class BravePage(PageEngine):
    """See the module."""

    name = "brave_page"
    url = "https://search.brave.com/search"
    row = 'div.snippet[data-type="web"]'
    link = "a[href]"
    title = ":is(.search-snippet-title, .snippet-title, .title)"
    snippet = ":is(.snippet-description, .generic-snippet)"
    next_page = '#pagination a[href*="offset="]'
    empty = re.compile(r"no results (?:were )?found|not many great matches", re.I)

    def request(self, query: EngineRequest) -> HttpRequest:
        """See `Engine`; region and safe search are cookies. `offset` counts pages from 0."""
        params = {"q": query.query, "source": "web", "spellcheck": "0"}
        if query.page > 1:
            params["offset"] = str(query.page - 1)
        if query.time:
            params["tf"] = _TIME[query.time]
        cookies = {
            "country": query.region or "all", "safesearch": query.safe or "moderate",
            "useLocation": "0", "summarizer": "0",
        }  # fmt: skip
        return HttpRequest("GET", self.url, params=params, headers=self.headers(query, cookies))

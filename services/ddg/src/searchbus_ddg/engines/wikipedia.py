"""Wikipedia's search, by its API (https://www.mediawiki.org/wiki/API:Search).

Terms: open to programs that name themselves in User-Agent and send one request at a time; texts are
CC BY-SA. The edition is that of the language, English without one. A failure is
`{"error": {"code", "info"}}` with HTTP 200.

`timestamp` of a row is its last edit, which is no date of publication: it is left out.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import quote

import msgspec

from searchbus_contracts.engines import EngineRequest
from searchbus_contracts.web import WebResult
from searchbus_upstream import HttpReply, HttpRequest

from ..outcome import EngineError, Outcome
from .base import PROGRAM, Engine, EnginePage, changed, read_json, result, results_of

_ROWS = 10
_TAG = re.compile(r"<[^<>]*>")
_LIMITED = {"ratelimited", "maxlag"}


class _Search(msgspec.Struct):
    search: list[Any]


class _Reply(msgspec.Struct):
    query: _Search | None = None
    error: Any = None
    next: Any = msgspec.field(default=None, name="continue")


class Wikipedia(Engine):
    """See the module; `{language}` of the URL is the edition."""

    name = "wikipedia"
    url = "https://{language}.wikipedia.org/w/api.php"

    def request(self, query: EngineRequest) -> HttpRequest:
        """See `Engine`."""
        params = {
            "action": "query", "list": "search", "srsearch": query.query[:300],
            "srlimit": str(_ROWS), "sroffset": str(_ROWS * (query.page - 1)),
            "srprop": "snippet", "format": "json", "formatversion": "2",
        }  # fmt: skip
        headers = {"User-Agent": PROGRAM, "Accept": "application/json"}
        url = self.url.format(language=query.language or "en")
        return HttpRequest("GET", url, params=params, headers=headers)

    def parse(self, query: EngineRequest, reply: HttpReply) -> EnginePage:
        """See `Engine`."""
        found = read_json(reply, _Reply)
        if isinstance(found.error, dict):
            code = str(found.error.get("code"))[:40]
            outcome = Outcome.RATE_LIMITED if code in _LIMITED else Outcome.UPSTREAM_ERROR
            raise EngineError(outcome, f"it answers with the error {code!r}")
        if found.query is None:
            raise changed("its reply has no list of results")
        base = f"https://{query.language or 'en'}.wikipedia.org/wiki/"

        def read(row: dict[str, Any]) -> WebResult | None:
            title = row.get("title")
            if not isinstance(title, str):
                return None
            page = quote(title.replace(" ", "_"), safe="/:(),'!*@")
            snippet = row.get("snippet")
            # HTML: `<span class="searchmatch">whale</span> &amp; its`
            text = unescape(_TAG.sub("", snippet)) if isinstance(snippet, str) else ""
            return result(base + page, title, text)

        return EnginePage(results_of(found.query.search, read), more=found.next is not None)

"""DuckDuckGo's news: the JSON behind https://duckduckgo.com/?ia=news.

Terms: as for DuckDuckGo's web search, with whose egress, pace and refusals it is sent.

A search needs a token (`vqd`), which stands in the page of the query and is bound to query and
User-Agent. Rows: {date: seconds of the epoch, title, excerpt, url, source}; `next` is there where
there is a further page. The form is known from public descriptions and was not tried here.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

import msgspec
from cachetools import TTLCache

from searchbus_contracts.engines import EngineRequest, ddg_region
from searchbus_upstream import HttpReply, HttpRequest

from ..outcome import EngineError, Outcome
from ..search import USER_AGENT, quote_bangs
from .base import (
    Engine,
    EnginePage,
    changed,
    iso_time,
    read_json,
    require_success,
    result,
    results_of,
)

_ROWS = 30
_VQD = re.compile(r"""vqd=["']?([\w-]{5,100})""")
_ANOMALY = re.compile(rb"anomaly\.js|challenge-form|anomaly-modal", re.I)
_SAFE = {"": "-1", "strict": "1", "moderate": "-1", "off": "-2"}
_TOKEN_TTL_S = 3600.0


class _Reply(msgspec.Struct):
    results: list[Any]
    next: Any = None


class DuckDuckGoNews(Engine):
    """See the module."""

    name = "ddg_news"
    url = "https://duckduckgo.com/"

    def __init__(self, url: str | None = None) -> None:
        super().__init__(url)
        self._tokens: TTLCache[str, str] = TTLCache(1000, _TOKEN_TTL_S)

    def steps(self, query: EngineRequest) -> Generator[HttpRequest, HttpReply, EnginePage]:
        """See `Engine`; the first request gets the token, unless it is known."""
        text = quote_bangs(query.query)
        if text not in self._tokens:
            reply = yield HttpRequest(
                "GET", self.url, params={"q": text, "ia": "news"}, headers=self._headers()
            )
            _require_no_challenge(reply)
            token = _VQD.search(reply.text)
            if token is None:
                raise changed("its page has no token for news")
            self._tokens[text] = token[1]
        reply = yield self.request(query)
        try:
            _require_no_challenge(reply)
            return self.parse(query, reply)
        except EngineError:
            self._tokens.pop(text, None)  # it may have ended
            raise

    def request(self, query: EngineRequest) -> HttpRequest:
        """See `Engine`; the token of the query is known."""
        text = quote_bangs(query.query)
        params = {
            "l": ddg_region(query.region, query.language), "o": "json", "noamp": "1", "q": text,
            "vqd": self._tokens[text], "p": _SAFE[query.safe], "df": query.time,
            "s": str(_ROWS * (query.page - 1)),
        }  # fmt: skip
        return HttpRequest("GET", f"{self.url}news.js", params=params, headers=self._headers())

    def parse(self, query: EngineRequest, reply: HttpReply) -> EnginePage:
        """See `Engine`."""
        found = read_json(reply, _Reply)
        rows = results_of(
            found.results,
            lambda row: result(
                row.get("url"), row.get("title"), row.get("excerpt"), iso_time(row.get("date"))
            ),
        )
        return EnginePage(rows, more=bool(found.next))

    def _headers(self) -> dict[str, str]:
        origin = "{0.scheme}://{0.netloc}/".format(urlsplit(self.url))
        return {"User-Agent": USER_AGENT, "Accept": "*/*", "Referer": origin}


def _require_no_challenge(reply: HttpReply) -> None:
    if _ANOMALY.search(reply.body):
        raise EngineError(Outcome.CHALLENGE, "it asks for proof that this is no program")
    require_success(reply)

"""The engines without a key beside DuckDuckGo's web search: request, parser and terms of each.

A new one is a class here, with a place in `BY_NAME`, and a row in searchbus_contracts.engines.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from cachetools import TTLCache

from searchbus_contracts.engines import EngineRequest, ddg_region
from searchbus_contracts.web import WebResult
from searchbus_upstream import HttpReply, HttpRequest

from ..outcome import EngineError, Outcome
from ..parse import parse_page
from ..search import USER_AGENT, quote_bangs
from .base import (
    PROGRAM,
    Engine,
    EnginePage,
    PageEngine,
    changed,
    iso_time,
    read_json,
    require_success,
    result,
    results_of,
)

_NEWS_ROWS = 30
_VQD = re.compile(r"""vqd=["']?([\w-]{5,100})""")
_SAFE = {"": "-1", "strict": "1", "moderate": "-1", "off": "-2"}
_TOKEN_TTL_S = 3600.0


class _News(msgspec.Struct):
    results: list[Any]
    next: Any = None


class DuckDuckGoNews(Engine):
    """DuckDuckGo's news: the JSON behind https://duckduckgo.com/?ia=news.

    Terms: as for DuckDuckGo's web search, with whose egress, pace and refusals it is sent.

    A search needs a token (`vqd`), which stands in the page of the query and is bound to query and
    User-Agent. Rows: {date: seconds of the epoch, title, excerpt, url, source}; `next` is there
    where there is a further page. The form is known from public descriptions; it was not tried.
    """

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
            "s": str(_NEWS_ROWS * (query.page - 1)),
        }  # fmt: skip
        return HttpRequest("GET", f"{self.url}news.js", params=params, headers=self._headers())

    def parse(self, query: EngineRequest, reply: HttpReply) -> EnginePage:
        """See `Engine`."""
        found = read_json(reply, _News)
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
    # Its JSON holds what others wrote.
    is_json = reply.body.lstrip().startswith(b"{")
    if not is_json and parse_page(reply.status, reply.body).outcome is Outcome.CHALLENGE:
        raise EngineError(Outcome.CHALLENGE, "it asks for proof that this is no program")
    require_success(reply)


_ROWS = 10
_TAG = re.compile(r"<[^<>]*>")
_LIMITED = {"ratelimited", "maxlag"}


class _Search(msgspec.Struct):
    search: list[Any]


class _Pages(msgspec.Struct):
    query: _Search | None = None
    error: Any = None
    next: Any = msgspec.field(default=None, name="continue")


class Wikipedia(Engine):
    """Wikipedia's search, by its API (https://www.mediawiki.org/wiki/API:Search).

    Terms: open to programs that name themselves in User-Agent and send one request at a time; texts
    are CC BY-SA. The edition is that of the language, English without one. A failure is
    `{"error": {"code", "info"}}` with HTTP 200.

    `timestamp` of a row is its last edit, not its publication date: it is left out.
    """

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
        found = read_json(reply, _Pages)
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


class _Rows(msgspec.Struct):
    results: list[Any]


class Marginalia(Engine):
    """Marginalia Search: the small and old web, mostly in English.

    Terms (https://about.marginalia-search.com/article/api/): an open interface; results are
    CC BY-NC-SA 4.0. The key `public` has one limit for all its users together: HTTP 503 means that
    this is used up.
    """

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
        found = read_json(reply, _Rows)
        rows = results_of(
            found.results,
            lambda row: result(row.get("url"), row.get("title"), row.get("description")),
        )
        return EnginePage(rows, more=len(found.results) >= _ROWS)


_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}


class Mojeek(PageEngine):
    """Mojeek (https://www.mojeek.com): its result page, over an index of its own.

    Terms: robots.txt disallows /search for programs, and an API is sold
    (https://www.mojeek.com/services/search/web-search-api/). So it is off until the operator names
    it.

    The page's form is known from public descriptions and was not tried against the live site. The
    first page must not have the parameter `s`: that alone is limited. A refusal is HTTP 403 with
    words about automated queries.
    """

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


_TIME = {"d": "pd", "w": "pw", "m": "pm", "y": "py"}


class BravePage(PageEngine):
    """Brave Search (https://search.brave.com): its result page, over an index of its own.

    Terms: robots.txt disallows /search for programs, and an API is sold, which is the provider
    `brave`. So it is off until the operator names it.

    The page's form is known from public descriptions and was not tried against the live site. Since
    2025 a snippet may be `.generic-snippet`. A refusal is HTTP 429, or a page that asks for a
    captcha.
    """

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


BY_NAME: dict[str, type[Engine]] = {
    engine.name: engine for engine in (DuckDuckGoNews, Wikipedia, Marginalia, Mojeek, BravePage)
}

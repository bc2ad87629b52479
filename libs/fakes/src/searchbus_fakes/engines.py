"""Fake engines without a key: the markup of Mojeek and Brave, the JSON of the others.

Words in the query choose a fault: those of the fake providers, and noresult, captcha, garbage.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

Row = dict[str, str]
ENGINE_PATHS = {
    "mojeek": "mojeek", "brave_page": "brave_page", "marginalia": "marginalia",
    "wikipedia": "wikipedia", "ddg_news": "ddg_news/",
}  # fmt: skip
"""Engine → its path below `/engines/`."""


def query_of(request: Request) -> tuple[str, int]:
    """The query, and how many rows come before the page."""
    given = request.query_params
    text = given.get("q") or given.get("query") or given.get("srsearch") or ""
    pages = int(given.get("page", 1)) - 1 + int(given.get("offset", 0))
    skipped = int(given.get("s", 0)) or int(given.get("sroffset", 0))
    return text, 10 * pages + skipped // 10 * 10


def answer_of(engine: str, request: Request, rows: Callable[[str, int], list[Row]]) -> Response:
    """The reply of one engine, with the rows (title, url, text) of a query from a number on."""
    text, start = query_of(request)
    words = set(text.split())
    if "captcha" in words:
        return HTMLResponse("<p>Please solve this captcha</p>", 403)
    found = [] if "noresult" in words else rows(text, start)
    return _FORMS[engine](found)


def _mojeek(rows: list[Row]) -> Response:
    items = "".join(
        f'<li><a class="ob" href="{html.escape(r["url"])}"></a><h2><a>{html.escape(r["title"])}</a></h2>'
        f'<p class="s">{html.escape(r["text"])}</p></li>'
        for r in rows
    )
    if not rows:
        return HTMLResponse("<h2>No pages found matching it</h2>")
    following = '<div class="pagination"><a href="/search?s=11">Next</a></div>'
    return HTMLResponse(f'<ul class="results-standard">{items}</ul>{following}')


def _brave(rows: list[Row]) -> Response:
    items = "".join(
        f'<div class="snippet" data-type="web"><a href="{html.escape(r["url"])}">'
        f'<div class="title">{html.escape(r["title"])}</div></a>'
        f'<div class="generic-snippet">{html.escape(r["text"])}</div></div>'
        for r in rows
    )
    following = '<div id="pagination"><a href="?offset=1">Next</a></div>'
    return HTMLResponse(items + following if rows else "<p>No results found</p>")


def _wikipedia(rows: list[Row]) -> Response:
    found: list[dict[str, Any]] = [
        {"ns": 0, "title": r["title"], "snippet": html.escape(r["text"])} for r in rows
    ]
    return JSONResponse({"query": {"search": found}, "continue": {"sroffset": 10}})


def _marginalia(rows: list[Row]) -> Response:
    found = [{"url": r["url"], "title": r["title"], "description": r["text"]} for r in rows]
    return JSONResponse({"license": "fake", "results": found})


def _news(rows: list[Row]) -> Response:
    now_s = int(time.time())
    found = [
        {"url": r["url"], "title": r["title"], "excerpt": r["text"], "date": now_s - 600 * n}
        for n, r in enumerate(rows)
    ]
    return JSONResponse({"results": found, "next": "news.js?s=30" if rows else None})


def token_page(text: str) -> Response:
    """The page in which the news search finds its token."""
    return HTMLResponse(f'<script>vqd="4-{abs(hash(text)) % 10**12:012d}"</script>{quote(text)}')


_FORMS: dict[str, Callable[[list[Row]], Response]] = {
    "mojeek": _mojeek, "brave_page": _brave, "wikipedia": _wikipedia, "marginalia": _marginalia,
    "ddg_news": _news,
}  # fmt: skip

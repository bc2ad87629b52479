"""A fake DuckDuckGo: html and lite pages, instant answers, and refusals of every kind.

It counts the requests of each source address, as the real one does: after more than `quick_requests`
within `window_s` the address gets challenges for `block_s`. Words in the query choose a fault:
noresult, empty202, garbage, cutoff, drip, hang, reset, http500, http429. Every third row of the
html page has a date: today in a search with a time range, else in March 2026.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

ROWS_A_PAGE = 10
PAGES = 5


@dataclass
class FakeDuckDuckGo:
    """The state of the fake; every field may be changed while it is served.

    Args:
        quick_requests: requests of an address within `window_s`; 0 switches the limit off.
        latency_s: before every response.
        blocked: addresses that always get challenges.
        emptied: addresses that always get empty pages with status 202.
    """

    quick_requests: int = 0
    window_s: float = 10.0
    block_s: float = 5.0
    latency_s: float = 0.0
    blocked: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)
    requests: list[tuple[float, str, str]] = field(default_factory=list)
    challenges: int = 0
    in_flight: int = 0
    _recent: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    _blocked_until: dict[str, float] = field(default_factory=dict)

    @property
    def app(self) -> Starlette:
        """The ASGI application: /html/, /lite/, /instant, and /_fake to read and change its state."""
        return Starlette(
            routes=[
                Route("/html/", self.html, methods=["GET", "POST"]),
                Route("/lite/", self.lite, methods=["GET", "POST"]),
                Route("/instant", self.instant),
                Route("/_fake", self.control, methods=["GET", "POST"]),
            ]
        )

    async def control(self, request: Request) -> Response:
        """GET: counts; POST: change fields (`{"latency_s": 0.3, "blocked": ["127.0.0.2"]}`)."""
        if request.method == "POST":
            for name, value in (await request.json()).items():
                setattr(self, name, set(value) if name in ("blocked", "emptied") else value)
        return JSONResponse(
            {
                "requests": len(self.requests),
                "challenges": self.challenges,
                "in_flight": self.in_flight,
                "addresses": sorted({address for _, address, _ in self.requests}),
            }
        )

    async def html(self, request: Request) -> Response:
        """The html endpoint."""
        return await self._page(request, "html")

    async def lite(self, request: Request) -> Response:
        """The lite endpoint."""
        return await self._page(request, "lite")

    async def _page(self, request: Request, kind: str) -> Response:
        form = (
            dict(await request.form()) if request.method == "POST" else dict(request.query_params)
        )
        query = str(form.get("q", ""))
        self.in_flight += 1
        try:
            refusal = await self._admit(request, query)
            return refusal or self._answer(
                request, kind, query, {k: str(v) for k, v in form.items()}
            )
        finally:
            self.in_flight -= 1

    async def _admit(self, request: Request, query: str) -> Response | None:
        address = request.client.host if request.client else ""
        now_s = time.monotonic()
        self.requests.append((now_s, address, query))
        recent = self._recent[address]
        recent.append(now_s)
        while recent and recent[0] < now_s - self.window_s:
            recent.popleft()
        if self.quick_requests and len(recent) > self.quick_requests:
            self._blocked_until[address] = now_s + self.block_s
        if self.latency_s:
            await _wait(request, self.latency_s)
        if address in self.blocked or self._blocked_until.get(address, 0) > now_s:
            self.challenges += 1
            return Response(_CHALLENGE, 202, media_type="text/html")
        if address in self.emptied:
            return Response(_EMPTY, 202, media_type="text/html")
        return None

    def _answer(self, request: Request, kind: str, query: str, form: dict[str, str]) -> Response:
        words = set(query.split())
        if "hang" in words:
            return StreamingResponse(_hang(), media_type="text/html")
        if "http500" in words:
            return Response("oops", 500)
        if "http429" in words:
            return Response("", 429, headers={"Retry-After": "7"})
        if "empty202" in words:
            return Response(_EMPTY, 202, media_type="text/html")
        if "garbage" in words and kind == "html":
            return Response("<html><title>x at DuckDuckGo</title><p>new design</p></html>")
        if query.startswith("!"):
            return Response("", 303, headers={"Location": "https://example.org/"})
        if "noresult" in words:
            return Response(_page_of(kind, query, [_NO_RESULTS], None), media_type="text/html")
        page = int(form.get("s", "0") or 0) // ROWS_A_PAGE
        vqd = _vqd(query, request.headers.get("user-agent", ""))
        if page and form.get("vqd") != vqd:
            self.challenges += 1
            return Response(_CHALLENGE, 202, media_type="text/html")
        first = page * ROWS_A_PAGE
        row = _html_row if kind == "html" else _lite_row
        day = f"{datetime.now(UTC):%Y-%m-%d}" if form.get("df") else "2026-03-02"
        rows = [row(query, number, day) for number in range(first, first + ROWS_A_PAGE)]
        if page == 0:
            rows.insert(0, _AD if kind == "html" else _LITE_AD)
        following = _next_form(kind, query, first + ROWS_A_PAGE, vqd) if page + 1 < PAGES else None
        text = _page_of(kind, query, rows, following)
        if "cutoff" in words:
            text = text[: text.index("result__a", len(text) // 2) - 40]
        if "reset" in words:
            return StreamingResponse(_reset(text), media_type="text/html")
        if "drip" in words:
            return StreamingResponse(_drip(text), media_type="text/html")
        return Response(text, media_type="text/html")

    async def instant(self, request: Request) -> Response:
        """The Instant Answer API: an article for `rust`, a disambiguation for `mercury`."""
        query = request.query_params.get("q", "")
        self.requests.append((time.monotonic(), request.client.host, query))  # type: ignore[union-attr]
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        answer: dict[str, Any] = {"Abstract": "", "RelatedTopics": [], "Type": "", "Infobox": ""}
        if "http500" in query.split():
            return Response("oops", 500)
        if "rust" in query.lower():
            answer |= {
                "Heading": "Rust", "Type": "A", "AbstractSource": "Wikipedia",
                "AbstractText": "Rust is a programming language.",
                "AbstractURL": "https://en.wikipedia.org/wiki/Rust_(programming_language)",
                "RelatedTopics": [_topic("Cargo", "The Rust package manager")],
            }  # fmt: skip
        elif "mercury" in query.lower():
            answer |= {
                "Heading": "Mercury", "Type": "D",
                "RelatedTopics": [
                    _topic("Mercury (element)", "A metal that is liquid."),
                    {"Name": "Astronomy", "Topics": [_topic("Mercury (planet)", "The smallest.")]},
                ],
            }  # fmt: skip
        return JSONResponse(answer, media_type="application/x-javascript")


async def _wait(request: Request, seconds: float) -> None:
    """Sleep, at most until the client has closed the connection."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0 and not await request.is_disconnected():
        await asyncio.sleep(min(0.1, left_s))


def _topic(title: str, about: str) -> dict[str, Any]:
    url = f"https://duckduckgo.com/{quote(title)}"
    return {
        "FirstURL": url, "Icon": {"Height": "", "URL": "", "Width": ""},
        "Result": f'<a href="{url}">{title}</a> {about}', "Text": f"{title} {about}",
    }  # fmt: skip


def _vqd(query: str, agent: str) -> str:
    return "4-" + str(int(hashlib.sha256(f"{query}{agent}".encode()).hexdigest()[:16], 16))


def _html_row(query: str, number: int, day: str) -> str:
    target = f"http://site{number}.example.org/a%2Fb?q={quote(query)}&n={number}"
    link = f"//duckduckgo.com/l/?uddg={quote(target, safe='')}&amp;rut=abc"
    date = f"<span>&nbsp; &nbsp; {day}T00:00:00.0000000</span>" if number % 3 == 0 else ""
    return f"""<div class="result results_links results_links_deep web-result ">
  <div class="links_main links_deep result__body">
    <h2 class="result__title"><a rel="nofollow" class="result__a" href="{link}">
      {html.escape(query)} &amp; more, number {number}</a></h2>
    <div class="result__extras"><div class="result__extras__url">
      <a class="result__url" href="{link}">site{number}.example.org</a>{date}</div></div>
    <a class="result__snippet" href="{link}">All about <b>{html.escape(query)}</b>, part {number}.</a>
  </div></div>"""


def _lite_row(query: str, number: int, day: str) -> str:
    target = quote(f"http://site{number}.example.org/?n={number}", safe="")
    return f"""<tr><td>{number + 1}.&nbsp;</td><td><a rel="nofollow"
  href="//duckduckgo.com/l/?uddg={target}&amp;rut=x" class='result-link'>{html.escape(query)} {number}</a>
  </td></tr><tr><td></td><td class='result-snippet'>Lite text {number}.</td></tr>
  <tr><td></td><td><span class='link-text'>site{number}.example.org</span></td></tr>"""


def _next_form(kind: str, query: str, start: int, vqd: str) -> str:
    fields = {
        "q": query, "s": start, "nextParams": "", "v": "l", "o": "json", "dc": start + 1,
        "api": "d.js", "vqd": vqd, "kl": "wt-wt",
    }  # fmt: skip
    hidden = "".join(
        f'<input type="hidden" name="{k}" value="{html.escape(str(v))}">' for k, v in fields.items()
    )
    form = f'<input type="submit" value="Next">{hidden}</form>'
    if kind == "html":
        return f'<div class="nav-link"><form action="/html/" method="post">{form}</div>'
    return f'<form class="next_form" action="/lite/" method="post">{form}'


def _page_of(kind: str, query: str, rows: list[str], following: str | None) -> str:
    title = f"<title>{html.escape(query)} at DuckDuckGo</title>"
    body = "\n".join(rows)
    if kind == "lite":
        body = f"<table>{body}</table>"
    return f'<html><head>{title}</head><body><div id="links" class="results">{body}{following or ""}</div></body></html>'


_AD_TARGET = quote("https://duckduckgo.com/y.js?ad_domain=ads.example", safe="")
_AD = f"""<div class="result results_links results_links_deep result--ad "><div class="result__body">
<h2 class="result__title"><a class="result__a" href="//duckduckgo.com/l/?uddg={_AD_TARGET}">Buy it</a></h2>
<a class="result__snippet" href="x">An advertisement</a></div></div>"""
_LITE_AD = """<tr class="result-sponsored"><td>1.</td><td><a class='result-link'
href="https://duckduckgo.com/y.js?ad_domain=ads.example">Buy it</a></td></tr>
<tr><td></td><td class='result-snippet'>An advertisement</td></tr>"""
_NO_RESULTS = """<div class="result results_links results_links_deep result--no-result">
<div class="links_main links_deep result__body"><div class="no-results">No results.</div></div></div>"""
_EMPTY = "<html><body></body></html>"
_CHALLENGE = """<html><head><title>DuckDuckGo</title></head><body>
<form id="challenge-form" action="//duckduckgo.com/anomaly.js?sv=html&cc=sre" method="POST">
<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div></form></body></html>"""


async def _hang() -> AsyncIterator[bytes]:
    yield b"<html>"
    await asyncio.sleep(120)


async def _drip(text: str) -> AsyncIterator[bytes]:
    for byte in text.encode():
        yield bytes([byte])
        await asyncio.sleep(0.05)


async def _reset(text: str) -> AsyncIterator[bytes]:
    yield text[: len(text) // 2].encode()
    await asyncio.sleep(0.05)
    raise ConnectionResetError("the fake cuts the connection")

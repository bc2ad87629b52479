"""One search over as many result pages as are needed: html first, lite where html is unreadable."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import WebResult, WebSearchRequest
from searchbus_upstream import (
    HttpReply,
    HttpRequest,
    UpstreamClient,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    retry_after_s,
)

from .egress import Egress, blocked
from .outcome import REFUSALS, EngineError, Outcome, ResultPage, out_of_time
from .parse import MAX_PAGE_BYTES, parse_page

MAX_PAGES = 4
MAX_QUERY_CHARS = 499
USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 searchbus/0.1"
"""The same for every request: the next page's token (vqd) is bound to query and User-Agent."""
_SAFE = {"": "", "strict": "1", "moderate": "-1", "off": "-2"}
_BANG = re.compile(r"(?<!\S)(!\S+|\S+!)(?!\S)")
_PAGE_TIMEOUT_S = 15.0


class SearchRows(msgspec.Struct):
    """The rows of a search; `note` says why further pages could not be fetched."""

    rows: list[WebResult]
    note: str | None = None


class RefusedError(Fault):
    """DuckDuckGo refused a request that was sent; the outcome is one of `REFUSALS`."""

    def __init__(self, outcome: Outcome, code: ErrorCode, message: str, wait_s: int) -> None:
        super().__init__(code, message, retry_after_ms=wait_s * 1000)
        self.outcome = outcome


class ScrapedSearch:
    """Searches through one egress."""

    def __init__(self, egress: Egress, pages: PageClient) -> None:
        self._egress = egress
        self._pages = pages

    async def run(self, request: WebSearchRequest, caller: str, timeout_s: float) -> SearchRows:
        """Return the first `request.limit` rows, or all where there are fewer.

        Args:
            caller: for fair turns on the egress.

        Raises:
            Fault: the first page could not be fetched (see `fault_of`); `RefusedError` where
                DuckDuckGo refused it. A failure of a later page only shortens the list.
        """
        end_s = asyncio.get_running_loop().time() + timeout_s
        endpoint, page = await self._first_page(request, caller, end_s)
        rows: dict[str, WebResult] = {}
        note = None
        for number in range(1, MAX_PAGES + 1):
            known = len(rows)
            for row in page.rows:
                rows.setdefault(row.url, row)
            # DuckDuckGo repeats its last page for ever: stop at a page without new rows.
            last = not page.next_form or len(rows) == known or number == MAX_PAGES
            if last or len(rows) >= request.limit:
                break
            fetch = functools.partial(self._pages.next_page, endpoint, page.next_form, request)
            try:
                page = await self._fetch(caller, end_s, fetch)
            except (EngineError, Fault) as error:
                reason = error.detail if isinstance(error, EngineError) else error.failure.message
                note = f"Further results could not be fetched: {reason.rstrip('.')}."
                break
        return SearchRows(list(rows.values())[: request.limit], note)

    async def _first_page(
        self, request: WebSearchRequest, caller: str, end_s: float
    ) -> tuple[str, ResultPage]:
        """The endpoint that can be read, and its first page."""
        html = functools.partial(self._pages.first_page, "html", request)
        lite = functools.partial(self._pages.first_page, "lite", request)
        try:
            return "html", await self._fetch(caller, end_s, html)
        except EngineError as html_error:
            # A refusal of the address holds for lite as well, and a request would prolong it.
            if html_error.outcome not in (Outcome.UNKNOWN_MARKUP, Outcome.UPSTREAM_ERROR):
                raise fault_of(html_error, self._egress) from None
            try:
                return "lite", await self._fetch(caller, end_s, lite)
            except EngineError as error:
                shown = error if error.outcome in REFUSALS else html_error
                raise fault_of(shown, self._egress) from None

    async def _fetch(
        self, caller: str, end_s: float, fetch: Callable[[float], Awaitable[ResultPage]]
    ) -> ResultPage:
        left_s = end_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise out_of_time()
        return await self._egress.use(caller, left_s, fetch)


def fault_of(error: EngineError, egress: Egress) -> Fault:
    """The failure of a call; it never reads as if there were no results."""
    wait_s = max(1, round(egress.breaker.remaining_s))
    if error.outcome is Outcome.RATE_LIMITED:
        return RefusedError(
            error.outcome,
            ErrorCode.UPSTREAM_LIMITED,
            f"{egress.title} limits searches from here. Try again in {wait_s} seconds, or use "
            "another search tool.",
            wait_s,
        )
    if error.outcome in REFUSALS:
        failure = blocked(wait_s, title=egress.title).failure
        return RefusedError(error.outcome, ErrorCode.UPSTREAM_BLOCKED, failure.message, wait_s)
    if error.outcome is Outcome.TIMEOUT:
        return Fault(
            ErrorCode.UPSTREAM_FAILED, f"{egress.title} did not answer in time. Try again shortly."
        )
    changed = error.outcome is Outcome.UNKNOWN_MARKUP
    advice = "Use another search tool." if changed else "Try again shortly."
    return Fault(
        ErrorCode.UPSTREAM_FAILED,
        f"{egress.title} could not be searched: {error.detail}. {advice}",
        retryable=not changed,
    )


def quote_bangs(query: str) -> str:
    """Quote bangs: DuckDuckGo would redirect `!g cats` to another site."""
    return _BANG.sub(lambda m: f"'{m[1]}'" if m[1].strip("!") else m[1], query)


class PageClient:
    """Fetches one page at a time from the two endpoints; pacing is the caller's."""

    def __init__(self, client: UpstreamClient, *, html_url: str, lite_url: str) -> None:
        self._client = client
        self._urls = {"html": html_url, "lite": lite_url}

    async def first_page(
        self, endpoint: str, request: WebSearchRequest, timeout_s: float
    ) -> ResultPage:
        """Fetch the first page of a search.

        Args:
            endpoint: html or lite.

        Raises:
            EngineError, Fault: the outcome is neither ok nor empty, or as `send`.
        """
        form = {"q": quote_bangs(request.query), "b": "", "kl": request.region, "df": request.time}
        if request.safe:
            form["kp"] = _SAFE[request.safe]
        return await self.next_page(endpoint, form, request, timeout_s)

    async def next_page(
        self, endpoint: str, form: Mapping[str, str], request: WebSearchRequest, timeout_s: float
    ) -> ResultPage:
        """Fetch the page that the form of the page before requests; raises as `first_page`."""
        url = self._urls[endpoint]
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        headers = {
            "User-Agent": USER_AGENT,
            "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Language": _languages(request.region),
            "Origin": origin,
            "Referer": url,
            "Sec-Fetch-Dest": "document",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Site": "same-origin",
            "Sec-Fetch-User": "?1",
            "Upgrade-Insecure-Requests": "1",
            "Cookie": f"kl={request.region}" + (f"; df={request.time}" if request.time else ""),
        }
        reply = await send(
            self._client,
            HttpRequest("POST", url, headers=headers, form=form),
            left_s=timeout_s,
            most_s=_PAGE_TIMEOUT_S,
            max_bytes=MAX_PAGE_BYTES,
        )
        return _parse(reply)


async def send(
    client: UpstreamClient, request: HttpRequest, *, left_s: float, most_s: float, max_bytes: int
) -> HttpReply:
    """Send a request to an engine, which has `most_s` at most, and a caller with `left_s`.

    Raises:
        EngineError: there is no response.
        Fault: deadline_exceeded, where the caller's time ended before the engine's.
    """
    try:
        return await client.send(request, timeout_s=min(left_s, most_s), max_bytes=max_bytes)
    except UpstreamTimeoutError as error:
        if left_s < most_s:
            raise out_of_time() from None
        raise EngineError(Outcome.TIMEOUT, str(error)) from None
    except UpstreamUnreachableError as error:
        raise EngineError(Outcome.UPSTREAM_ERROR, str(error)) from None


def _parse(reply: HttpReply) -> ResultPage:
    if 300 <= reply.status < 400:
        raise EngineError(Outcome.UPSTREAM_ERROR, "it redirects elsewhere, as for a !bang")
    page = parse_page(reply.status, reply.body)
    if page.outcome in (Outcome.OK, Outcome.EMPTY):
        return page
    detail = {
        Outcome.CHALLENGE: "it challenges this address to prove that it is not a bot",
        Outcome.BLANK: "it answers with a blank page",
        Outcome.RATE_LIMITED: f"it limits this address (HTTP {reply.status})",
        Outcome.UNKNOWN_MARKUP: "its page cannot be read: the markup has changed"
        if not reply.truncated
        else "its page was cut off before the first result",
        Outcome.UPSTREAM_ERROR: f"it answers HTTP {reply.status}",
    }[page.outcome]
    raise EngineError(page.outcome, detail, retry_after_s(reply.headers))


def _languages(region: str) -> str:
    country, _, language = region.partition("-")
    if region == "wt-wt" or not language:
        return "en-US,en;q=0.9"
    return f"{language}-{country.upper()},{language};q=0.9,en;q=0.5"

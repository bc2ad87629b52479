"""Fetches and parses the result pages of DuckDuckGo's html and lite endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from searchbus_contracts.web import WebSearchRequest
from searchbus_upstream import (
    Reply,
    Request,
    UpstreamClient,
    UpstreamTimeout,
    UpstreamUnreachable,
    retry_after_s,
)

from .outcome import DuckDuckGoError, Outcome, ResultPage
from .parse import MAX_PAGE_BYTES, parse_page

__all__ = ["MAX_QUERY_CHARS", "USER_AGENT", "PageClient", "quote_bangs", "send"]

MAX_QUERY_CHARS = 499
USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 searchbus/0.1"
"""The same for every request: the next page's token (vqd) is bound to query and User-Agent."""
_SAFE = {"": "", "strict": "1", "moderate": "-1", "off": "-2"}
_BANG = re.compile(r"(?<!\S)(!\S+|\S+!)(?!\S)")
_PAGE_TIMEOUT_S = 15.0


def quote_bangs(query: str) -> str:
    """Quote bangs: DuckDuckGo would redirect `!g cats` to another site."""
    return _BANG.sub(lambda m: f"'{m[1]}'" if m[1].strip("!") else m[1], query)


class PageClient:
    """Fetches one page at a time; pacing is the caller's.

    Args:
        html_url, lite_url: the two endpoints.
    """

    def __init__(
        self,
        client: UpstreamClient,
        *,
        html_url: str,
        lite_url: str,
        user_agent: str = USER_AGENT,
    ) -> None:
        self._client = client
        self._urls = {"html": html_url, "lite": lite_url}
        self._user_agent = user_agent

    async def first_page(
        self, endpoint: str, request: WebSearchRequest, timeout_s: float
    ) -> ResultPage:
        """Fetch the first page of a search.

        Args:
            endpoint: html or lite.

        Raises:
            DuckDuckGoError: the outcome is neither ok nor empty.
        """
        form = {"q": quote_bangs(request.query), "b": "", "kl": request.region, "df": request.time}
        if request.safe:
            form["kp"] = _SAFE[request.safe]
        return await self._fetch(endpoint, form, request, timeout_s)

    async def next_page(
        self, endpoint: str, form: Mapping[str, str], request: WebSearchRequest, timeout_s: float
    ) -> ResultPage:
        """Fetch the next page by the form of the page before; raises as `first_page`."""
        return await self._fetch(endpoint, form, request, timeout_s)

    async def _fetch(
        self, endpoint: str, form: Mapping[str, str], request: WebSearchRequest, timeout_s: float
    ) -> ResultPage:
        url = self._urls[endpoint]
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        headers = {
            "User-Agent": self._user_agent,
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
            Request("POST", url, headers=headers, form=form),
            timeout_s=min(timeout_s, _PAGE_TIMEOUT_S),
            max_bytes=MAX_PAGE_BYTES,
        )
        return _parse(reply)


async def send(
    client: UpstreamClient, request: Request, *, timeout_s: float, max_bytes: int
) -> Reply:
    """Send a request to DuckDuckGo; raises DuckDuckGoError where there is no response."""
    try:
        return await client.send(request, timeout_s=timeout_s, max_bytes=max_bytes)
    except UpstreamTimeout as error:
        raise DuckDuckGoError(Outcome.TIMEOUT, str(error)) from None
    except UpstreamUnreachable as error:
        raise DuckDuckGoError(Outcome.UPSTREAM_ERROR, str(error)) from None


def _parse(reply: Reply) -> ResultPage:
    if 300 <= reply.status < 400:
        raise DuckDuckGoError(Outcome.UPSTREAM_ERROR, "it redirects elsewhere, as for a !bang")
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
    raise DuckDuckGoError(page.outcome, detail, retry_after_s(reply.headers))


def _languages(region: str) -> str:
    country, _, language = region.partition("-")
    if region == "wt-wt" or not language:
        return "en-US,en;q=0.9"
    return f"{language}-{country.upper()},{language};q=0.9,en;q=0.5"

"""Requests to DuckDuckGo's html and lite pages, one after the other, through one egress."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import WebSearchRequest
from searchbus_upstream import (
    Reply,
    Transport,
    UpstreamTimeout,
    UpstreamUnreachable,
    retry_after_s,
)

from .outcomes import Kind, Page, Refused
from .parse import MAX_PAGE_BYTES, parse_page

__all__ = ["MAX_QUERY_CHARS", "Asking", "check_query", "quote_bangs"]

MAX_QUERY_CHARS = 499
USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 searchbus/0.1"
"""One for the process: the next page's token (vqd) is bound to query and User-Agent."""
_SAFE = {"": "", "strict": "1", "moderate": "-1", "off": "-2"}
_BANG = re.compile(r"(?<!\S)(!\S+|\S+!)(?!\S)")
_PAGE_TIMEOUT_S = 15.0


def check_query(query: str) -> str:
    """The query without surplus space; raises Fault(invalid_query)."""
    text = " ".join(query.split())
    if not text:
        raise Fault(ErrorCode.INVALID_QUERY, "query is empty. Say what to search for.")
    if len(text) > MAX_QUERY_CHARS:
        raise Fault(
            ErrorCode.INVALID_QUERY,
            f"query has {len(text)} characters; DuckDuckGo takes at most {MAX_QUERY_CHARS}.",
        )
    return text


def quote_bangs(query: str) -> str:
    """`!g cats` would be redirected to another site; in quotes it is searched for."""
    return _BANG.sub(lambda m: f"'{m[1]}'" if m[1].strip("!") else m[1], query)


class Asking:
    """Fetches pages.

    Args:
        html_url, lite_url: the two endpoints.
        user_agent: static, see USER_AGENT.
    """

    def __init__(
        self, transport: Transport, *, html_url: str, lite_url: str, user_agent: str = USER_AGENT
    ) -> None:
        self._transport = transport
        self.urls = {"html": html_url, "lite": lite_url}
        self._user_agent = user_agent

    async def first(self, endpoint: str, request: WebSearchRequest, timeout_s: float) -> Page:
        """The first page of a search; raises Refused."""
        form = {"q": quote_bangs(request.query), "b": "", "kl": request.region, "df": request.time}
        if request.safe:
            form["kp"] = _SAFE[request.safe]
        return await self._ask(endpoint, form, request, timeout_s)

    async def following(
        self, endpoint: str, form: Mapping[str, str], request: WebSearchRequest, timeout_s: float
    ) -> Page:
        """The next page, by the form of the page before; raises Refused."""
        return await self._ask(endpoint, dict(form), request, timeout_s)

    async def _ask(
        self, endpoint: str, form: dict[str, str], request: WebSearchRequest, timeout_s: float
    ) -> Page:
        url = self.urls[endpoint]
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
        try:
            reply = await self._transport.send(
                "POST", url, data=form, headers=headers,
                timeout_s=min(timeout_s, _PAGE_TIMEOUT_S), max_bytes=MAX_PAGE_BYTES,
            )  # fmt: skip
        except UpstreamTimeout as error:
            raise Refused(Kind.TIMEOUT, str(error)) from None
        except UpstreamUnreachable as error:
            raise Refused(Kind.UPSTREAM_ERROR, str(error)) from None
        return _judge(reply)


def _judge(reply: Reply) -> Page:
    if 300 <= reply.status < 400:
        raise Refused(Kind.UPSTREAM_ERROR, "it redirects elsewhere, as for a !bang")
    page = parse_page(reply.status, reply.body)
    if page.kind in (Kind.OK, Kind.EMPTY):
        return page
    detail = {
        Kind.CHALLENGE: "it asks this address to prove that no bot searches",
        Kind.FINGERPRINT: "it answers this client with an empty page",
        Kind.RATE_LIMITED: f"it limits this address (HTTP {reply.status})",
        Kind.UNKNOWN_MARKUP: "its page cannot be read: the markup has changed"
        if not reply.truncated
        else "its page was cut off before the first result",
        Kind.UPSTREAM_ERROR: f"it answers HTTP {reply.status}",
    }[page.kind]
    raise Refused(page.kind, detail, retry_after_s(reply.headers))


def _languages(region: str) -> str:
    country, _, language = region.partition("-")
    if region == "wt-wt" or not language:
        return "en-US,en;q=0.9"
    return f"{language}-{country.upper()},{language};q=0.9,en;q=0.5"

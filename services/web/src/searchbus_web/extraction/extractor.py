"""The text of several pages at once: each page has its own status, in the order of the request."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from searchbus_contracts import Fault, decode, encode
from searchbus_upstream import Fetched, SharedCache

from ..progress import OnDone, each_reported, raised
from ..providers.tavily import Tavily
from .envelope import start_of
from .fetching import Fetcher, NotFetched
from .pool import ReaderPool
from .reading import PageBytes

__all__ = ["ExtractedPage", "Extractor"]

log = logging.getLogger("searchbus.web")

_SHARE = 0.9
"""Of the caller's time; the rest is for the reply."""
_MIN_TAVILY_S = 1.0
_PROBLEMS = {
    "empty": "The page holds no text.",
    "scanned": "The PDF holds pictures of pages, no text.",
    "encrypted": "The PDF is encrypted.",
    "parse_error": "The page cannot be read.",
    "too_complex": "The page takes too much time or memory to read.",
    "too_large": "Its text is too large.",
}
_FOR_TAVILY = {
    "challenge",
    "empty",
    "too_complex",
    "parse_error",
    "http_403",
    "http_429",
}
"""Statuses of pages that Tavily may be able to read."""


_FOR_LATER = re.compile(r"timeout|unreachable|dns|http_429|http_5\d\d")
"""Statuses of pages that may be readable later."""


@dataclass(frozen=True, slots=True)
class ExtractedPage:
    """One page: its whole `text` where the status is ok, else `message` says why there is none.

    Args:
        url: as requested.
        page_url: without the fragment that names the start.
        start: where the requested part begins, in characters of the text.
    """

    url: str
    text: str
    status: str
    message: str | None = None
    page_url: str = ""
    start: int = 0


class _PageOutcome(msgspec.Struct, omit_defaults=True):
    """The text of a page or why there is none, as it is cached and shared."""

    text: str = ""
    status: str = "ok"
    message: str | None = None


class Extractor:
    """Fetches and parses pages.

    Args:
        tavily: extracts pages that this service could not; None: nobody does.
        fresh_s: how old a page's text may be.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        pool: ReaderPool,
        cache: SharedCache,
        *,
        tavily: Tavily | None = None,
        fresh_s: float = 600.0,
    ) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._cache = cache
        self._tavily = tavily
        self._fresh_s = fresh_s

    async def extract(
        self,
        urls: Sequence[str],
        *,
        timeout_s: float,
        caller: str = "",
        on_done: OnDone | None = None,
    ) -> list[ExtractedPage]:
        """Return the pages in the order of `urls`; equal URLs are fetched once.

        Args:
            caller: the stable id of whoever asks for the pages.
            on_done: awaited for each page that was read or failed.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s * _SHARE
        outcomes = await each_reported(
            [(url, self._extract(url, end_s - loop.time(), caller)) for url in urls], on_done
        )
        pages = [raised(outcome) for outcome in outcomes]
        failed = [i for i, page in enumerate(pages) if page.status in _FOR_TAVILY]
        left_s = end_s - loop.time()
        if self._tavily is not None and self._tavily.usable and failed and left_s > _MIN_TAVILY_S:
            requested = [pages[i].url for i in failed]
            texts = await self._tavily_texts(self._tavily, requested, left_s, caller)
            for i in failed:
                url, start = start_of(pages[i].url)
                if url in texts:
                    pages[i] = _page(pages[i].url, texts[url], url, start)
        return pages

    async def _extract(self, requested: str, left_s: float, caller: str) -> ExtractedPage:
        url, start = start_of(requested)

        async def fetch() -> Fetched:
            outcome = await self._outcome(url, left_s, caller)
            # A failure is for those who wait now, not for later requests.
            return Fetched(encode(outcome), store=outcome.status == "ok")

        try:
            cached = await self._cache.get(
                f"page/{url}", fetch, fresh_s=self._fresh_s, stale_s=self._fresh_s
            )
        except Fault as fault:
            return ExtractedPage(requested, "", "unreachable", fault.failure.message)
        outcome = decode(cached.value, _PageOutcome)
        if outcome.status != "ok":
            later = _FOR_LATER.fullmatch(outcome.status)
            advice = "Try again later, or use another page." if later else "Use another page."
            message = f"{outcome.message} {advice}"
            return ExtractedPage(requested, "", outcome.status, message)
        return _page(requested, outcome.text, url, start)

    async def _outcome(self, url: str, left_s: float, caller: str) -> _PageOutcome:
        try:
            async with asyncio.timeout(left_s):
                page = await self._fetcher.fetch(url, timeout_s=left_s, caller=caller)
                text = await self._pool.read(
                    PageBytes(page.url, page.body, page.media_type, page.charset),
                    caller=caller,
                )
        except TimeoutError:
            return _PageOutcome(status="timeout", message="It could not be read in time.")
        except NotFetched as failure:
            return _PageOutcome(status=failure.status, message=failure.message)
        if text.problem is not None:
            return _PageOutcome(status=text.problem, message=_PROBLEMS[text.problem])
        return _PageOutcome(text.text)

    async def _tavily_texts(
        self, tavily: Tavily, requested: Sequence[str], left_s: float, caller: str
    ) -> dict[str, str]:
        """URL → text of the pages that Tavily could read."""
        urls = list(dict.fromkeys(start_of(url)[0] for url in requested))
        texts: dict[str, str] = {}
        try:
            async with asyncio.timeout(left_s):
                for page in await tavily.extract(urls, timeout_s=left_s):
                    body = (page.text or "").encode("utf-8", "replace")
                    found = await self._pool.read(
                        PageBytes(page.url, body, "text/markdown", "utf-8"), caller=caller
                    )
                    if found.text:
                        texts[page.url] = found.text
        except TimeoutError:
            log.info("Tavily's pages could not all be read in time")
        except Fault as fault:
            log.info("Tavily could not extract %d pages: %s", len(urls), fault.code)
        return texts


def _page(requested: str, text: str, url: str, start: int) -> ExtractedPage:
    if start and start >= len(text):
        message = f"The text has only {len(text)} characters. Start before its end."
        return ExtractedPage(requested, "", "invalid_url", message)
    return ExtractedPage(requested, text, "ok", None, url, start)

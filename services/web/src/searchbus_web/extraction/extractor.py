"""Several pages at once: each has a status of its own; always partial results, in order."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence

import msgspec

from searchbus_contracts import ErrorCode, Fault, decode, encode
from searchbus_upstream import SharedCache

from ..providers.tavily import Tavily
from .envelope import clean_text, envelope, start_of
from .fetching import Fetcher, NotFetched
from .pool import ReaderPool
from .reading import Page

__all__ = ["MAX_URLS", "Extractor", "Item", "split_urls"]

log = logging.getLogger("searchbus.web")

MAX_URLS = 5
_MAX_URL_CHARS = 4096
_SHARE = 0.9
_PROBLEMS = {
    "empty": "The page holds no text.",
    "scanned": "The PDF holds pictures of pages, no text.",
    "encrypted": "The PDF is encrypted.",
    "parse_error": "The page cannot be read.",
    "too_complex": "The page takes too much time or memory to read.",
    "too_large": "Its text is too large.",
}
_TRY_ELSEWHERE = {
    "challenge",
    "empty",
    "too_complex",
    "parse_error",
    "http_403",
    "http_429",
}


class Item(msgspec.Struct, omit_defaults=True):
    """One page: `content` where status is ok, else `message` says why not."""

    url: str
    content: str
    status: str
    message: str | None = None


class _Kept(msgspec.Struct):
    text: str


class Extractor:
    """Fetches and reads pages.

    Args:
        tavily: asked for pages that we could not get; None: nobody is.
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

    async def extract(self, urls: Sequence[str], *, timeout_s: float) -> list[Item]:
        """The text of pages, in order; a page asked for twice is fetched once."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s * _SHARE
        items = await asyncio.gather(*(self._one(url, end_s - loop.time()) for url in urls))
        failed = [i for i, item in enumerate(items) if item.status in _TRY_ELSEWHERE]
        left_s = end_s - loop.time()
        if self._tavily is not None and self._tavily.usable and failed and left_s > 1:
            await self._ask_tavily(items, failed, left_s)
        return items

    async def _one(self, asked: str, left_s: float) -> Item:
        url, start = start_of(asked)
        try:
            text = await self._text(url, left_s)
        except NotFetched as failure:
            return Item(asked, "", failure.status, failure.message)
        if start >= len(text) > 0 and start:
            return Item(asked, "", "invalid_url", f"The text has only {len(text)} characters.")
        return Item(asked, envelope(text, url, start), "ok")

    async def _text(self, url: str, left_s: float) -> str:
        async def fetch() -> bytes:
            try:
                async with asyncio.timeout(left_s):
                    page = await self._fetcher.fetch(url, timeout_s=left_s)
                    body = Page(page.url, page.body, page.media_type, page.charset)
                    read = await self._pool.read(body)
            except TimeoutError:
                raise _Failed(NotFetched("timeout", "It could not be read in time.")) from None
            except NotFetched as failure:
                raise _Failed(failure) from None
            if read.problem is not None:
                raise _Failed(NotFetched(read.problem, _PROBLEMS[read.problem]))
            return encode(_Kept(clean_text(read.text)))

        try:
            cached = await self._cache.get(
                f"page/{url}", fetch, fresh_s=self._fresh_s, stale_s=self._fresh_s
            )
        except Fault as fault:
            raise _not_fetched(fault) from None
        return decode(cached.value, _Kept).text

    async def _ask_tavily(self, items: list[Item], failed: list[int], left_s: float) -> None:
        assert self._tavily is not None
        urls = list(dict.fromkeys(start_of(items[i].url)[0] for i in failed))
        try:
            pages = await self._tavily.extract(urls, timeout_s=left_s)
        except Fault as fault:
            log.info("Tavily could not help with %d pages: %s", len(urls), fault.code)
            return
        texts = {page.url: page.text for page in pages if page.text}
        for i in failed:
            url, start = start_of(items[i].url)
            if url in texts:
                text = clean_text(str(texts[url]))
                items[i] = Item(items[i].url, envelope(text, url, start), "ok")


class _Failed(Fault):
    """A page's failure on its way through the cache, to all who wait for the page."""

    def __init__(self, failure: NotFetched) -> None:
        message = json.dumps([failure.status, failure.message])
        super().__init__(ErrorCode.UPSTREAM_FAILED, message)


def _not_fetched(fault: Fault) -> NotFetched:
    try:
        status, message = json.loads(fault.failure.message)
    except (ValueError, TypeError):
        return NotFetched("unreachable", fault.failure.message)
    return NotFetched(status, message)


def split_urls(given: Sequence[str]) -> list[str]:
    """The URLs asked for; a JSON array that came as one string is taken apart.

    Raises:
        Fault: invalid_argument naming what is wrong.
    """
    urls: list[str] = []
    for item in given:
        text = item.strip()
        if text.startswith("["):
            try:
                inner = json.loads(text)
            except ValueError:
                inner = None
            if isinstance(inner, list) and all(isinstance(url, str) for url in inner):
                urls += [url.strip() for url in inner]
                continue
        urls.append(text)
    if not urls or not all(urls):
        raise Fault(ErrorCode.INVALID_ARGUMENT, "urls is empty. Give 1 to 5 http or https URLs.")
    if len(urls) > MAX_URLS:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"urls has {len(urls)} URLs; at most {MAX_URLS} are allowed.",
        )
    if any(len(url) > _MAX_URL_CHARS for url in urls):
        raise Fault(ErrorCode.INVALID_ARGUMENT, f"a URL is over {_MAX_URL_CHARS} characters.")
    return urls

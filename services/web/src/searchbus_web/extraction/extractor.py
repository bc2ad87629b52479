"""The text of several pages at once, each with its own status.

pages = await extractor.extract(urls, timeout_s=20.0)
items = fit(pages, 25_000)      # within a budget of tokens, see fitting.py
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from searchbus_contracts import Actor, ErrorCode, Fault, decode, encode
from searchbus_contracts.web import LATER_STATUS, START_FRAGMENT
from searchbus_upstream import Cached, Fetched, SharedCache
from searchbus_upstream.cache import Fetch

from ..progress import OnDone, each_reported, raised
from ..providers.tavily import Tavily
from .fetching import MAX_REDIRECTS, Fetcher, FetchError, Visit
from .pool import ReaderPool
from .reading import FactsQuestion, PageBytes, PageReply, PageText
from .scripts import MAY_CHANGE, NO_SCRIPTS, BrowserService

log = logging.getLogger("searchbus.web")
T = TypeVar("T")

_SHARE = 0.9
"""Share of the caller's time for the pages; the rest is for the reply."""
_MIN_TAVILY_S = 1.0
_TIMEOUT = "timeout"
_LATER = "Try again later, or use another page."
_PROBLEMS = {
    "empty": "The page holds no text.",
    "scanned": "The PDF holds pictures of pages, no text.",
    "encrypted": "The PDF is encrypted.",
    "parse_error": "The page cannot be read.",
    "too_complex": "The page takes too much time or memory to read.",
    "too_large": "Its text is too large.",
}
_FOR_TAVILY = {"challenge", "empty", "too_complex", "parse_error", "http_403", "http_429"}
"""Statuses of pages that Tavily may be able to read; it learns no address of the allowlist."""
_FINAL = {"ok", "robots", "blocked_by_policy", "invalid_url"}
"""Statuses in whose place no kept text is taken; all others are failures to read the site."""


class ExtractedPage(Struct, omit_defaults=True):
    """One page: its whole `text` where the status is ok, else `message` says why there is none.

    Shared and cached without what only a request has: `url`, `page_url`, `start` and `fetched_ms`.

    Args:
        url: as requested.
        page_url: without the fragment that names the start.
        start: where the requested part begins, in characters of the text.
        fetched_ms: when the page was fetched, in milliseconds of the epoch.
        facts: of the page, as JSON, where they were asked for.
        note: on the scripts of the page, where it needs them.
        title: of the page, on one line; may be empty.
        by_tavily: whether the text is Tavily's, and not as we read it.
    """

    url: str = ""
    text: str = ""
    status: str = "ok"
    message: str | None = None
    page_url: str = ""
    start: int = 0
    fetched_ms: int = 0
    facts: bytes = b""
    reply: PageReply = PageReply()
    note: str = ""
    title: str = ""
    by_tavily: bool = False


@dataclass(eq=False)
class Extractor:
    """Fetches and parses pages.

    Args:
        scripts: runs the scripts of pages that need them; None: nobody does.
        tavily: extracts pages that this service could not; None: nobody does.
        fresh_s: how old a page's text may be.
    """

    fetcher: Fetcher
    pool: ReaderPool
    cache: SharedCache
    _: KW_ONLY
    scripts: BrowserService | None = None
    tavily: Tavily | None = None
    fresh_s: float = 600.0

    async def extract(
        self,
        urls: Sequence[str],
        *,
        timeout_s: float,
        actor: Actor,
        on_done: OnDone | None = None,
        fresh_s: float | None = None,
        with_facts: bool = False,
    ) -> list[ExtractedPage]:
        """Return the pages in the order of `urls`; equal URLs are fetched once.

        Args:
            fresh_s: how old a page may be; None: as old as the cache keeps it.
            with_facts: whether the structured facts of a page are read with its text.
            actor: whoever asks for the pages.
            on_done: awaited for each page that was read or failed.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s * _SHARE
        fresh_s = self.fresh_s if fresh_s is None else min(fresh_s, self.fresh_s)
        outcomes = await each_reported(
            [
                (url, self._extract(url, end_s - loop.time(), actor, fresh_s, with_facts))
                for url in urls
            ],
            on_done,
        )
        pages = [raised(outcome) for outcome in outcomes]
        left_s = end_s - loop.time()
        if self.tavily is None or not self.tavily.usable or left_s <= _MIN_TAVILY_S:
            return pages
        failed = {
            i: page.url for i, page in enumerate(pages)
            if page.status in _FOR_TAVILY and not self.fetcher.is_operators(page.url)
        }  # fmt: skip
        if failed:
            found = await self._by_tavily(self.tavily, failed.values(), left_s, actor)
            for i, requested in failed.items():
                url = start_of(requested)[0]
                if url in found:
                    pages[i] = _requested(found[url], requested)
        return pages

    async def visit(
        self, url: str, visit: Visit, *, timeout_s: float, actor: Actor, fresh_s: float
    ) -> ExtractedPage:
        """One page with its facts, for a crawl; `unchanged` where the visit's headers say so."""
        fresh_s = min(fresh_s, self.fresh_s)
        page = await self._asked(start_of(url)[0], timeout_s, actor, fresh_s, True, visit)
        return _requested(page, url)

    async def _extract(
        self, requested: str, left_s: float, actor: Actor, fresh_s: float, with_facts: bool
    ) -> ExtractedPage:
        url, start = start_of(requested)
        page, facts = None, _key_of(url, True)
        if start and with_facts and not await self.cache.stored(facts, fresh_s=fresh_s):
            # Parts of a page are of one text: Tavily's, unless a first part was the site's since.
            page = await self._kept(url, fresh_s)
        if page is None or not page.by_tavily:
            page = await self._asked(url, left_s, actor, fresh_s, with_facts)
            kept = await self._kept(url, fresh_s) if page.status not in _FINAL else None
            if kept is not None and (kept.by_tavily or page.status in _FOR_TAVILY):
                page = kept
        return _requested(page, requested)

    async def _kept(self, url: str, fresh_s: float) -> ExtractedPage | None:
        """The stored text of a page, of its site or of Tavily, without facts."""
        stored = await self.cache.stored(_key_of(url, False), fresh_s=fresh_s)
        return _page_of(stored) if stored is not None else None

    async def _asked(
        self,
        url: str,
        left_s: float,
        actor: Actor,
        fresh_s: float,
        with_facts: bool,
        visit: Visit | None = None,
    ) -> ExtractedPage:
        """A page as its site gives it, now or for an earlier request."""

        async def fetch() -> Fetched:
            found = await self._fetched(url, left_s, actor, with_facts, visit)
            if found.status == _TIMEOUT:  # others, who wait for it, may have more time
                raise Fault(ErrorCode.DEADLINE_EXCEEDED, found.message or "")
            # A failure is for those who wait now, not for later requests.
            store = found.status == "ok" and not found.note.startswith(MAY_CHANGE)
            return Fetched(encode(found), store=store)

        try:
            key = _key_of(url, with_facts)
            if visit is not None:
                cached = await self._visited(key, visit, fetch, fresh_s)
            else:
                cached = await self.cache.get(
                    key, fetch, fresh_s=fresh_s, stale_s=fresh_s, timeout_s=left_s
                )
        except Fault as fault:
            if fault.code != ErrorCode.DEADLINE_EXCEEDED:
                return ExtractedPage(status="unreachable", message=fault.failure.message)
            return ExtractedPage(status=_TIMEOUT, message=f"It could not be read in time. {_LATER}")
        page = _page_of(cached)
        if page.status != "ok":
            advice = _LATER if LATER_STATUS.fullmatch(page.status) else "Use another page."
            page.message = f"{page.message} {advice}"
        return page

    async def _visited(self, key: str, visit: Visit, fetch: Fetch, fresh_s: float) -> Cached:
        """The stored page, else one that no other caller waits for: a visit has its own rules."""
        stored = None if visit.headers else await self.cache.stored(key, fresh_s=fresh_s)
        if stored is not None:
            return stored
        fetched = await fetch()
        if fetched.store:
            await self.cache.store(key, fetched.value)
        return Cached(fetched.value, int(time.time() * 1000))

    async def _fetched(
        self, url: str, left_s: float, actor: Actor, with_facts: bool, visit: Visit | None
    ) -> ExtractedPage:
        try:
            if visit is not None:
                left_s = min(left_s, await visit.begin())
            page, text, note = await self._read(url, left_s, actor, visit)
        except FetchError as failure:
            return ExtractedPage(status=failure.status, message=failure.message)
        message = f"{_PROBLEMS[text.problem]} {note}".strip() if text.problem is not None else None
        # A page without text may have facts all the same.
        if text.problem is not None and not (with_facts and text.problem == "empty"):
            return ExtractedPage(status=text.problem, message=message)
        found = ExtractedPage(text=text.text, note=note, title=text.title)
        if not with_facts:
            return found
        facts = await self.pool.read_json(FactsQuestion(page), caller=actor.subject)
        if isinstance(facts, str):
            return ExtractedPage(status=facts, message=_PROBLEMS[facts])
        found.facts, found.reply = facts, page.reply
        if text.problem is not None and b'"items":[]' in facts:
            found.status, found.message = text.problem, message
        return found

    async def _read(
        self, url: str, left_s: float, actor: Actor, visit: Visit | None
    ) -> tuple[PageBytes, PageText, str]:
        """A page, its text, and a note on its scripts where it needs them; raises FetchError.

        An address that its scripts lead to is fetched by the rules of all pages.
        """
        loop, caller = asyncio.get_running_loop(), actor.subject
        end_s = loop.time() + left_s
        for _ in range(MAX_REDIRECTS + 1):
            left_s = end_s - loop.time()
            page = await self.fetcher.fetch(url, timeout_s=left_s, caller=caller, visit=visit)
            text = await self.pool.read(page, caller=caller)
            if not text.by_scripts:
                return page, text, ""
            if self.scripts is None:
                return page, text, NO_SCRIPTS
            ran = await self.scripts.run(page, end_s - loop.time(), actor)
            if ran.page is not None:
                rendered = await self.pool.read(ran.page, caller=caller)
                # Some pages have text only as long as no script runs.
                if len(rendered.text) >= len(text.text):
                    return ran.page, rendered, ran.note
            if not ran.moved_to:
                return page, text, ran.note
            self.fetcher.check_step(page.url, ran.moved_to)
            url = ran.moved_to
        raise FetchError("too_many_redirects", "Its scripts lead to one address after another.")

    async def _by_tavily(
        self, tavily: Tavily, requested: Iterable[str], left_s: float, actor: Actor
    ) -> dict[str, ExtractedPage]:
        """URL → page of those that Tavily can read.

        They are kept as pages without facts: whoever asks for the facts of a first part asks the
        site itself first, and the other parts of a long page are not paid for again.
        """
        found: dict[str, ExtractedPage] = {}
        urls = list(dict.fromkeys(start_of(url)[0] for url in requested))
        try:
            async with asyncio.timeout(left_s):
                for url, text in (await tavily.extract(urls, timeout_s=left_s)).items():
                    body = text.encode("utf-8", "replace")
                    page = PageBytes(url, body, "text/markdown", "utf-8")
                    read = await self.pool.read(page, caller=actor.subject)
                    if read.text:
                        found[url] = ExtractedPage(text=read.text, by_tavily=True)
                        await self.cache.store(_key_of(url, False), encode(found[url]))
        except TimeoutError:
            log.info("Tavily's pages could not all be read in time")
        except Fault as fault:
            log.info("Tavily could not extract %d pages: %s", len(urls) - len(found), fault.code)
        return found


def _key_of(url: str, with_facts: bool) -> str:
    return f"{'facts' if with_facts else 'page'}/{url}"


def _page_of(cached: Cached) -> ExtractedPage:
    page = decode(cached.value, ExtractedPage)
    if page.status == "ok":
        page.fetched_ms = cached.made_ms
    return page


def _requested(page: ExtractedPage, requested: str) -> ExtractedPage:
    if page.status != "ok":
        return replace(page, url=requested)
    url, start = start_of(requested)
    if start and start >= len(page.text):
        message = f"The text has only {len(page.text)} characters. Start before its end."
        return ExtractedPage(requested, "", "invalid_url", message)
    return replace(page, url=requested, page_url=url, start=start)


def start_of(url: str) -> tuple[str, int]:
    """Split a URL into the page's URL and the offset into its text that our fragment names."""
    base, sign, fragment = url.partition("#")
    if sign and fragment.startswith(START_FRAGMENT):
        number = fragment.removeprefix(START_FRAGMENT)
        if number.isdecimal() and len(number) < 10:
            return base, int(number)
    return url, 0

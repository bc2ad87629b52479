"""The toolset `sites`: map_site and crawl."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import unquote

from msgspec import UNSET, Struct, UnsetType

from searchbus_bus import Bus, Call, KeyValue, Toolset
from searchbus_contracts import ErrorCode, Fault, ToolAnnotations, decode, encode
from searchbus_contracts.codec import doc
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_contracts.queries import too_small
from searchbus_passages import DEFAULT_TOKENS, bm25, count, holds, terms
from searchbus_upstream import Fetched, SharedCache

from ..tools import ROLE, Tokens, query_text, web_tool
from .crawling import MAX_PAGES, Crawl, CrawlReport, CrawlSite
from .documents import SiteDocuments
from .mapping import FRESH_S, FoundAddress, SiteAddresses, SiteMapping, SiteReader
from .records import CrawlRecord, record_key, take_record
from .scope import Globs, SiteScope, SiteUrl

MAX_RUNNING = 16
"""Maps and crawls of one worker at a time: a quarter of what it does at once."""
_RESERVE_SHARE, _MAX_RESERVE_S = 0.1, 25.0
"""What is kept of the caller's time for the page that is visited last, and for the answer."""


class MapSite(Struct, forbid_unknown_fields=True, rename="camel"):
    """Arguments of map_site."""

    url: SiteUrl
    max_pages: Annotated[int, doc("The most addresses of an answer", ge=1, le=MAX_PAGES)] = 200
    depth: Annotated[int, doc("How many links away from url; 0: only the sitemaps", ge=0, le=3)] = 1
    include: Globs = []
    exclude: Globs = []
    query: Annotated[str | UnsetType, doc("Words of the addresses and links to list first")] = UNSET
    cursor: (
        Annotated[str, doc("The cursor of the answer before", pattern=r"^[0-9]{1,5}$")] | UnsetType
    ) = UNSET
    max_tokens: Tokens = DEFAULT_TOKENS


class SiteMap(Struct, omit_defaults=True, rename="camel"):
    """Answer of map_site."""

    site: Annotated[str, doc("Registrable domain")]
    addresses: list[FoundAddress]
    total: Annotated[int, doc("Addresses that were found")]
    truncated: Annotated[bool, doc("Whether the site may have more than total")] = False
    cursor: Annotated[str | UnsetType, doc("For the addresses that follow")] = UNSET
    notes: Annotated[list[str], doc("What could not be read")] = []


class SiteTools(Toolset, name="sites"):
    """Addresses of sites, and their pages in collections."""

    def __init__(
        self,
        bus: Bus,
        reader: SiteReader,
        store: KeyValue,
        cache: SharedCache,
        *,
        allows_host: Callable[[str], bool],
    ) -> None:
        self._bus = bus
        self._reader = reader
        self._store = store
        self._cache = cache
        self._allows_host = allows_host
        self._running = 0

    @web_tool(
        title="List the addresses of a site",
        timeout_ms=120_000,
        examples=(
            "which pages does this web site have",
            "find the address of the pricing page of a site",
            "all documentation pages of https://example.org",
        ),
        keywords=("sitemap", "map", "links", "addresses", "robots.txt", "site"),
        in_prompts=False,
    )
    async def map_site(self, call: Call, arguments: MapSite) -> SiteMap:
        """List addresses of a web site, from its sitemaps and the links of its pages. robots.txt is
        obeyed. With query, the addresses with its words come first.
        """
        scope = self._scope(arguments.url, arguments.include, arguments.exclude)
        query = query_text(arguments.query) if arguments.query else ""
        end_s, steps = _end_s(call), 0

        async def on_step(addresses: int, url: str) -> None:
            nonlocal steps
            steps += 1
            await call.progress(steps, None, f"{addresses} addresses; read {url[:200]}")

        async def fetch() -> Fetched:
            found = await SiteMapping(
                self._reader, scope, arguments.depth, call.actor, end_s, on_step
            ).run()
            return Fetched(encode(found), store=bool(found.addresses) and not found.stopped)

        key = record_key(scope.start, arguments.depth, arguments.include, arguments.exclude)
        with self._place():
            cached = await self._cache.get(
                f"map/{key}", fetch, fresh_s=FRESH_S, stale_s=FRESH_S,
                timeout_s=call.remaining_s,
            )  # fmt: skip
        found = decode(cached.value, SiteAddresses)
        return await asyncio.to_thread(_shown, scope.site, found, query, arguments)

    @web_tool(
        title="Crawl a site into a collection",
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True
        ),
        required_roles=(ROLE, OPERATOR_ROLE),
        timeout_ms=600_000,
        examples=(
            "make the documentation at https://example.org/docs searchable",
            "fetch all pages of a web site into a collection",
            "update the collection from its web site",
        ),
        keywords=("crawl", "site", "ingest", "spider", "index", "recrawl"),
        in_prompts=False,
    )
    async def crawl(self, call: Call, arguments: CrawlSite) -> CrawlReport:
        """Fetch the pages of a web site politely, and store their texts in a collection of
        documents. A crawl of the same site again stores what has changed, and deletes what is gone.
        """
        scope = self._scope(arguments.url, arguments.include, arguments.exclude)
        key = record_key(
            call.actor.subject, arguments.collection, scope.start, arguments.depth,
            arguments.include, arguments.exclude,
        )  # fmt: skip
        with self._place():
            found, keeper = await take_record(self._store, key)
            record = CrawlRecord(conditional=found is not None and found.complete)
            if found is not None and (found.open or arguments.cursor == key):
                record = found
                record.counts = found.counts if found.open else {}
            elif arguments.cursor:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    "Unknown cursor. Omit it to start anew, or send the other arguments as before.",
                )
            report = await Crawl(
                arguments,
                reader=self._reader,
                documents=SiteDocuments(
                    self._bus, call.actor, arguments.collection, scope.site,
                    lambda: call.remaining_s,
                ),
                scope=scope,
                keeper=keeper,
                record=record,
                on_page=lambda pages, text: call.progress(pages, arguments.max_pages, text),
                actor=call.actor,
                end_s=_end_s(call),
            ).run()  # fmt: skip
        if report.waiting and keeper.kept:
            report.cursor = key
        return report

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Bound what runs here for minutes: searches and single pages have the rest."""
        if self._running >= MAX_RUNNING:
            raise Fault(
                ErrorCode.OVERLOADED,
                f"{MAX_RUNNING} maps and crawls run here already. Try again later.",
                retry_after_ms=30_000,
            )
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    def _scope(self, url: str, include: Sequence[str], exclude: Sequence[str]) -> SiteScope:
        return SiteScope(url, include, exclude, allows_host=self._allows_host)


def _end_s(call: Call) -> float:
    """When work on more pages ends, by the loop's clock."""
    left_s = call.remaining_s
    reserve_s = min(_RESERVE_SHARE * left_s, _MAX_RESERVE_S)
    return asyncio.get_running_loop().time() + left_s - reserve_s


def _shown(site: str, found: SiteAddresses, query: str, arguments: MapSite) -> SiteMap:
    """The part of a map that was asked for, as much as fits the budget."""
    addresses = found.addresses
    if query:
        words = [terms(f"{unquote(a.url)} {a.text}".replace("_", " ")) for a in addresses]
        scores = bm25(set(terms(query)), words)
        ranked = sorted(zip(scores, addresses, strict=True), key=lambda pair: -pair[0])
        addresses = [address for _, address in ranked]
    start = int(arguments.cursor or 0)
    page = addresses[start : start + arguments.max_pages]

    def answer(length: int) -> SiteMap:
        end = start + length
        return SiteMap(
            site,
            page[:length],
            len(addresses),
            found.cut,
            str(end) if end < len(addresses) else UNSET,
            found.notes,
        )

    most = bisect_left(
        range(1, len(page) + 1), True,
        key=lambda length: not holds(encode(answer(length)), arguments.max_tokens),
    )  # fmt: skip
    if page and not most:
        raise too_small(arguments.max_tokens, count(encode(answer(1)).decode()))
    return answer(most)

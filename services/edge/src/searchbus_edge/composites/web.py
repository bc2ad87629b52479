"""The web as a source of the composites."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import UNSET

from searchbus_contracts import Actor, ErrorCode, Failure, Fault
from searchbus_contracts.coverage import SourceCoverage
from searchbus_contracts.queries import MAX_TOKENS, Part
from searchbus_contracts.visible import marked, unmarked
from searchbus_contracts.web import LATER_STATUS, MAX_RESULTS, url_from
from searchbus_passages import Comparisons, Place, count

from ..catalog.registry import Registry
from ..tools.call import ToolCalls, ToolRequest
from .passages import Similarity, candidates, chosen
from .sources import (
    MAX_QUERY_CHARS,
    Anchor,
    FetchedSource,
    Ids,
    Quoted,
    QuoteFound,
    SourceDifference,
    SourceHit,
    SourceHits,
    unknown_id,
)  # fmt: skip

_MAX_CHARS = 4_000_000
"""The longest page that is read in parts: twice what the web service keeps of one."""
_READING_SHARE = 0.7
"""Share of a caller's time in which the parts of a page are read; the rest is for the answer."""


class Web:
    """The web toolset's search and extraction, for callers that have its roles."""

    name = "web"
    _SEARCH = ("web", "web_search")
    _EXTRACT = ("web", "web_extract_content")

    def __init__(
        self, calls: ToolCalls, ids: Ids, registry: Registry, similarity: Similarity
    ) -> None:
        self._calls = calls
        self._ids = ids
        self._registry = registry
        self._similarity = similarity
        self._comparisons = Comparisons()

    def absence(self, actor: Actor) -> Failure | None:
        """See Source."""
        listed = self._registry.view(None).tool_of.get(self._SEARCH)
        if listed is None:
            return Failure(
                code=ErrorCode.UNAVAILABLE,
                message="The web cannot be searched: no web service is running. Try again later.",
                retryable=True,
            )
        role = actor.missing(listed.required_roles)
        if role is None:
            return None
        return Failure(
            code=ErrorCode.FORBIDDEN,
            message=f"The web was left out: the caller does not have the role {role}. "
            "Ask an administrator for it.",
        )

    async def search(
        self, query: str, limit: int, *, passages: int, actor: Actor, timeout_s: float
    ) -> SourceHits:
        """See Source; a result has one snippet."""
        arguments = {"query": query[:MAX_QUERY_CHARS], "maxResults": min(MAX_RESULTS, limit)}
        found = await self._call(self._SEARCH, arguments, actor, timeout_s)
        hits = [
            SourceHit(
                id=self._ids.of_page(row["url"]), title=row["title"] or row["url"], url=row["url"],
                source=self.name, passages=(Quoted(row.get("snippet", "")),),
            )
            for row in found["results"]
            if isinstance(row["url"], str) and row["url"]
        ]  # fmt: skip
        providers = msgspec.convert(found.get("coverage", []), list[SourceCoverage])
        parts = [
            msgspec.structs.replace(part, source=f"{self.name}/{part.source}") for part in providers
        ]
        return SourceHits(hits, parts=parts)

    async def passages(
        self, question: str, hit: SourceHit, *, actor: Actor, timeout_s: float
    ) -> list[Quoted]:
        """See Source; of the page's text and its snippet, between marks."""
        deadline_s = time.monotonic() + timeout_s
        page = await self._part(hit.id, actor, timeout_s)
        if page is None:
            raise unknown_id()
        found = await asyncio.to_thread(
            candidates, question, page.text, *(q.text for q in hit.passages)
        )
        cosines = await self._similarity.cosines(
            question, [candidate.text for candidate in found], actor=actor,
            timeout_s=deadline_s - time.monotonic(),
        )  # fmt: skip
        return [_quoted(text, page) for text in chosen(found, cosines)]

    async def fetch(
        self, hit_id: str, *, actor: Actor, timeout_s: float,
        start: int = 0, end: int | None = None, max_tokens: int | None = None,
    ) -> FetchedSource | None:  # fmt: skip
        """See Source; a long page is read in parts. The text ends earlier where the next one cannot
        be read in time, or is of a changed page."""
        return (await self._read(hit_id, actor, timeout_s, start, end, max_tokens))[0]

    async def _read(
        self, hit_id: str, actor: Actor, timeout_s: float,
        start: int = 0, end: int | None = None, max_tokens: int | None = None,
    ) -> tuple[FetchedSource | None, Fault | None]:  # fmt: skip
        """What `fetch` gives, and the failure of the part that the text ends before."""
        end_s = time.monotonic() + timeout_s * _READING_SHARE
        page = await self._part(hit_id, actor, timeout_s, start)
        if page is None:
            return None, None
        text = read = page.text
        tokens, why = 0, None
        wanted = page.chars if end is None else min(end, page.chars)
        while text and (last := page.start + len(text) - 1) + 1 < wanted <= _MAX_CHARS:
            if max_tokens is not None:
                tokens += await asyncio.to_thread(count, read)
                if tokens > max_tokens:
                    break
            if (left_s := end_s - time.monotonic()) <= 0:
                break
            try:
                # From the last character on: no part begins or ends with white space.
                part = await self._part(hit_id, actor, left_s, last, continues=True)
            except Fault as fault:
                # A page that became shorter has changed: nothing was wrong with the request.
                why = None if fault.code == ErrorCode.INVALID_ARGUMENT else fault
                break
            if part is None or part.content_hash != page.content_hash:
                break
            if part.start != last or len(part.text) < 2:  # a worker may say anything
                break
            read = part.text[1:]
            text += read
        return replace(page, text=text[: max(0, wanted - page.start)]), why

    async def _part(
        self, hit_id: str, actor: Actor, timeout_s: float, start: int = 0, continues: bool = False
    ) -> FetchedSource | None:
        """What one extraction gives of a page from `start` on; see `fetch` and `ToolRequest`."""
        url = self._ids.page(hit_id)
        if url is None:
            return None
        part = url if start == 0 else url_from(url, start)
        arguments = {"urls": [part], "max_tokens": MAX_TOKENS}
        found = await self._call(self._EXTRACT, arguments, actor, timeout_s, continues)
        (item,) = found["items"]
        if item["status"] != "ok":
            beyond = start and item["status"] == "invalid_url"
            why = item.get("message") or ""
            raise Fault(
                ErrorCode.INVALID_ARGUMENT if beyond else ErrorCode.UPSTREAM_FAILED,
                f"The page could not be read ({item['status']}). {why}".strip(),
                retryable=LATER_STATUS.fullmatch(item["status"]) is not None,
            )
        mark, text = unmarked(item["content"])
        return FetchedSource(
            hit_id,
            item.get("title") or url,
            text,
            url,
            {"source": "web"},
            start=item.get("start", start),
            length=item.get("chars"),
            content_hash=item.get("content_hash"),
            mark=mark,
        )

    async def quote(
        self, hit_id: str, quote: str, *, actor: Actor, timeout_s: float
    ) -> QuoteFound | None:
        """See Source; the whole page is read."""
        page, why = await self._read(hit_id, actor, timeout_s)
        if page is None:
            return None
        if page.start or len(page.text) < page.chars:
            if page.chars > _MAX_CHARS:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    f"The page cannot be read to its end: it has more than {_MAX_CHARS:,} "
                    "characters. Look for the quotation in another source.",
                )
            raise why or Fault(
                ErrorCode.UNAVAILABLE, "The page cannot be read to its end. Try again."
            )
        try:
            place = await self._comparisons.find(page.text, quote)
        except ValueError as error:
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{error}.") from None
        return found_in(page, place)

    async def _call(
        self, tool: tuple[str, str], arguments: dict[str, Any], actor: Actor, timeout_s: float,
        continues: bool = False,
    ) -> Any:  # fmt: skip
        view = self._registry.view(None)
        listed = view.tool_of.get(tool)
        if listed is None or not actor.holds(listed.required_roles):
            raise unknown_id()  # a tool that the caller may not use looks absent
        target = self._calls.resolver.target(view, listed.name, arguments)
        request = ToolRequest(
            actor, target, arguments,
            timeout_s=timeout_s, for_composite=True, continues=continues,
        )  # fmt: skip
        try:
            reply = (await self._calls.call(request)).reply
        except MCPError as error:
            raise Fault(ErrorCode.UPSTREAM_FAILED, error.error.message) from None
        if reply.is_error:
            raise reply.fault("The web search failed. Try again shortly.")
        if reply.structured is None:
            raise Fault(ErrorCode.UPSTREAM_FAILED, "The web search failed. Try again shortly.")
        return reply.value


def _quoted(passage: str, page: FetchedSource) -> Quoted:
    """A passage between the page's marks; its snippet has no place in the text."""
    start = page.text.find(passage)
    text = marked(passage, page.mark)
    if start < 0 or page.content_hash is None:
        return Quoted(text)
    first = page.start + start
    return Quoted(text, Anchor(first, first + len(passage), page.content_hash))


def found_in(fetched: FetchedSource, place: Place) -> QuoteFound:
    """The answer for a place in the whole text of a page."""
    found = place.match != "none"
    return QuoteFound(
        match=place.match,
        id=str(Part(fetched.id, place.start, place.end)) if found else fetched.id,
        title=fetched.title,
        url=fetched.url,
        start=place.start if found else UNSET,
        end=place.end if found else UNSET,
        text=fetched.text[place.start : place.end],
        similarity=place.similarity,
        differences=[SourceDifference(d.quote, d.text) for d in place.differences],
        content_hash=fetched.content_hash,
    )

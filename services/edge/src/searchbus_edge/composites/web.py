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
from searchbus_passages import Comparisons, Place

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
        page = await self.fetch(hit.id, actor=actor, timeout_s=timeout_s)
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
        self, hit_id: str, *, actor: Actor, timeout_s: float, start: int = 0, end: int | None = None
    ) -> FetchedSource | None:
        """See Source; the text may end before `end`, since one extraction has a limit."""
        url = self._ids.page(hit_id)
        if url is None:
            return None
        part = url if start == 0 else url_from(url, start)
        arguments = {"urls": [part], "max_tokens": MAX_TOKENS}
        found = await self._call(self._EXTRACT, arguments, actor, timeout_s)
        (item,) = found["items"]
        if item["status"] != "ok":
            beyond = start and item["status"] == "invalid_url"
            why = item.get("message") or ""
            raise Fault(
                ErrorCode.INVALID_ARGUMENT if beyond else ErrorCode.UPSTREAM_FAILED,
                f"The page could not be read ({item['status']}). {why}".strip(),
                retryable=LATER_STATUS.fullmatch(item["status"]) is not None,
            )
        first = item.get("start", start)
        mark, text = unmarked(item["content"])
        return FetchedSource(
            hit_id,
            url,
            text if end is None else text[: max(0, end - first)],
            url,
            {"source": "web"},
            start=first,
            length=item.get("chars"),
            content_hash=item.get("content_hash"),
            mark=mark,
        )

    async def quote(
        self, hit_id: str, quote: str, *, actor: Actor, timeout_s: float
    ) -> QuoteFound | None:
        """See Source; the whole page is read, in parts."""
        page = await self._whole(hit_id, actor, timeout_s)
        if page is None:
            return None
        try:
            place = await self._comparisons.find(page.text, quote)
        except ValueError as error:
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{error}.") from None
        return found_in(page, place)

    async def _whole(self, hit_id: str, actor: Actor, timeout_s: float) -> FetchedSource | None:
        """A page with its whole text; only white space between its parts may differ."""
        part = page = await self.fetch(hit_id, actor=actor, timeout_s=timeout_s)
        if page is None:
            return None
        text = ""
        # A worker may say anything of where its part begins.
        while (
            part is not None
            and part.content_hash == page.content_hash
            and len(text) <= part.start <= page.chars <= _MAX_CHARS
        ):
            text += "\n" * (part.start - len(text)) + part.text
            if len(text) >= page.chars:
                return replace(page, text=text, start=0)
            if not part.text:
                break
            part = await self.fetch(hit_id, actor=actor, timeout_s=timeout_s, start=len(text))
        raise Fault(ErrorCode.UNAVAILABLE, "The page changed while it was read. Try again.")

    async def _call(
        self, tool: tuple[str, str], arguments: dict[str, Any], actor: Actor, timeout_s: float
    ) -> Any:
        view = self._registry.view(None)
        listed = view.tool_of.get(tool)
        if listed is None or not actor.holds(listed.required_roles):
            raise unknown_id()  # a tool that the caller may not use looks absent
        target = self._calls.resolver.target(view, listed.name, arguments)
        request = ToolRequest(actor, target, arguments, timeout_s=timeout_s, for_composite=True)
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

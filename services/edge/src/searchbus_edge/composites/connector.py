"""search, fetch, verify_quote and research_brief over all sources (toolset `connector`).

search and fetch follow the contract of ChatGPT's connectors and deep research: one text item with
the JSON, the same object as structured content, and in every result a URL that a person can open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct

from searchbus_bus import Call, Toolset, WithMeta, tool
from searchbus_contracts import Failure, encode
from searchbus_contracts.codec import doc
from searchbus_contracts.coverage import SourceCoverage, shown
from searchbus_contracts.queries import Part, check_query
from searchbus_contracts.tools import READ_ONLY_OUTSIDE
from searchbus_contracts.visible import marked
from searchbus_passages import DEFAULT_TOKENS, MAX_CHARS_PER_TOKEN, MAX_QUOTE_CHARS, fit_count

from ..catalog.render import RESULTS_VIEW, VIEW_KEY
from .briefing import Brief, BriefAnswer, fit_brief, focused, offset_of, source_of
from .gathering import Ask, described, find, raise_if_failed, request_all, with_meta
from .passages import Similarity, distinct, from_page
from .sources import (
    MAX_QUERY_CHARS,
    UNTRUSTED,
    Fetch,
    FetchedDocument,
    Quoted,
    QuoteFound,
    Source,
    SourceHit,
    fit,
    unknown_id,
)  # fmt: skip

MAX_RESULTS = 10
_BRIEF_SOURCES = 4
_PASSAGES_PER_SOURCE = 5
"""That are read; the best few of all are shown."""


class Search(Struct, forbid_unknown_fields=True):
    """Arguments of search."""

    query: Annotated[str, doc("What to search for, in natural language.")]


class SearchResult(Struct):
    """One result."""

    id: Annotated[str, doc("For fetch.")]
    title: Annotated[str, doc(UNTRUSTED)]
    url: Annotated[str, doc("For citation.")]
    source: Annotated[str, doc("documents/<collection> or web.")]
    untrusted: Annotated[bool, doc("Whether others wrote the title.")] = True


class ConnectorResults(Struct):
    """The answer of search, whose contract has this one key; what is missing stands in `_meta`."""

    results: list[SearchResult]


class VerifyQuote(Struct, forbid_unknown_fields=True):
    """Arguments of verify_quote."""

    id: Annotated[str, doc("The id of a search result or of a source, or a document_id.")]
    quote: Annotated[str, doc(f"The quotation, at most {MAX_QUOTE_CHARS:,} characters.")]


class Connector(Toolset, name="connector"):
    """The composites over their sources, in the order of importance with weights (0 leaves one
    out); without `similarity` words alone decide which sentences answer."""

    def __init__(
        self, sources: Sequence[tuple[Source, float]], similarity: Similarity | None = None
    ) -> None:
        self._similarity = similarity
        self._sources = [source for source, weight in sources if weight > 0]
        self._weights = {source.name: weight for source, weight in sources}

    @tool(
        title="Search documents and the web",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=20_000,
        examples=(
            "search our documents and the internet together",
            "look in our own files and on the web in one search",
            "search everything, in documents and online",
        ),
        keywords=(
            "documents",
            "files",
            "knowledge",
            "sources",
            "everywhere",
            "passages",
            "websites",
        ),
        meta={VIEW_KEY: RESULTS_VIEW},
    )
    async def search(self, call: Call, arguments: Search) -> WithMeta[ConnectorResults]:
        """Search the document collections and the web at once. Returns ids for fetch, titles and
        URLs for citation.
        """
        query = check_query(arguments.query, max_chars=MAX_QUERY_CHARS)
        hits, failures, coverage = await self._find(call, query, call.remaining_s, passages=1)
        results = [SearchResult(h.id, h.title, h.url, h.source) for h in hits[:MAX_RESULTS]]

        def first(kept: int) -> ConnectorResults:
            return ConnectorResults(results[:kept])

        # Some are left out only where addresses have thousands of characters.
        kept = await asyncio.to_thread(
            fit_count, len(results), DEFAULT_TOKENS, lambda kept: encode(first(kept))
        )
        return with_meta(first(kept), failures, coverage)

    @tool(
        title="Fetch a search result",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=45_000,
        examples=(
            "open a result of an earlier search by its id",
            "get the whole document behind a search result",
        ),
        keywords=("document", "full text", "hit"),
    )
    async def fetch(self, call: Call, arguments: Fetch) -> FetchedDocument:
        """Retrieve the full text of a search result by its id, or a part of it by id#start-end."""
        part = Part.of(arguments.id)
        most = part.start + MAX_CHARS_PER_TOKEN * arguments.max_tokens
        end = most if part.end is None else min(part.end, most)
        for source in self._sources:
            found = await source.fetch(
                part.id, actor=call.actor, timeout_s=call.remaining_s,
                start=part.start, end=end, max_tokens=arguments.max_tokens,
            )  # fmt: skip
            if found is not None:
                return await asyncio.to_thread(fit, part, found, arguments.max_tokens)
        raise unknown_id()

    @tool(
        title="Verify a quotation",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=45_000,
        examples=(
            "check that a quotation stands in its source word for word",
            "where in the document does this sentence stand",
            "is this quote right, and how does it differ from the original",
        ),
        keywords=("quotation", "quote", "citation", "verbatim", "check", "misquoted"),
    )
    async def verify_quote(self, call: Call, arguments: VerifyQuote) -> QuoteFound:
        """Check whether a quotation stands in a document or page: its place, or the nearest text
        and how it differs.
        """
        part = Part.of(arguments.id)
        for source in self._sources:
            found = await source.quote(
                part.id, arguments.quote, actor=call.actor, timeout_s=call.remaining_s
            )
            if found is not None:
                found.untrusted = True
                return found
        raise unknown_id()

    @tool(
        title="Gather evidence for a question",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=60_000,
        examples=(
            "gather evidence with citations",
            "research a question in several sources",
            "evidence and arguments for and against a claim",
            "write a short report with references",
        ),
        keywords=("research", "citations", "evidence", "proof", "summary", "report", "quotes"),
    )
    async def research_brief(self, call: Call, arguments: Brief) -> WithMeta[BriefAnswer]:
        """Search documents and the web, read the best few sources, and return the passages
        that speak to the question, each with its citation.
        """
        question = check_query(arguments.question, max_chars=MAX_QUERY_CHARS, field="question")
        offset = offset_of(arguments.cursor)
        await call.progress(0, 3, "searching")
        hits, failures, coverage = await self._find(
            call, question, call.remaining_s * 0.4, passages=_PASSAGES_PER_SOURCE
        )
        chosen = hits[offset : offset + _BRIEF_SOURCES]
        await call.progress(1, 3, f"reading {len(chosen)} of {len(hits)} sources")
        named = {source.name: source for source in self._sources}

        def reading(hit: SourceHit) -> Ask:
            passages = named[hit.source.partition("/")[0]].passages
            return lambda timeout_s: passages(question, hit, actor=call.actor, timeout_s=timeout_s)

        requests = {hit.id: reading(hit) for hit in chosen}
        read = await request_all(requests, timeout_s=call.remaining_s)
        await call.progress(2, 3, "picking passages")
        gathered: list[tuple[int, Quoted]] = []
        for number, hit in enumerate(chosen):
            known = [quoted.text for _, quoted in gathered]
            found: list[Quoted]
            if hit.id in read.replies:
                found = read.replies[hit.id]
            else:
                snippets = (q.text for q in hit.passages[:1])
                found = [Quoted(marked(text)) for text in from_page(question, "", *snippets)]
            texts = distinct((q.text for q in found), known)
            gathered += [(number, q) for q in found if q.text in texts]

        async def compare(sentences: Sequence[str]) -> list[float] | None:
            if self._similarity is None:
                return None
            return await self._similarity.cosines(
                question, sentences, actor=call.actor, timeout_s=call.remaining_s
            )

        passages = await focused(question, chosen, gathered, compare)
        cited = sorted({passage.citation for passage in passages})
        sources = [
            source_of(citation, hit, read.replies.get(hit.id, ()))
            for citation, hit in enumerate((chosen[number] for number in cited), 1)
        ]
        ranks = [offset + number for number in cited]
        for passage in passages:
            passage.citation = cited.index(passage.citation) + 1
        unread = {hit.url: read.failures[hit.id] for hit in chosen if hit.id in read.failures}
        failures = {**failures, **unread}
        coverage += (SourceCoverage.of_failure(url, why) for url, why in unread.items())
        if not passages:
            raise_if_failed(coverage)
        await call.progress(3, 3, "done")
        answer = BriefAnswer(True, passages, sources, described(failures), shown(coverage))
        fitted = await fit_brief(question, answer, ranks, arguments.max_tokens, compare)
        return with_meta(fitted, failures, coverage)

    async def _find(
        self, call: Call, query: str, timeout_s: float, *, passages: int
    ) -> tuple[Sequence[SourceHit], Mapping[str, Failure], list[SourceCoverage]]:
        """All hits, the sources that failed or were left out, and what each gave; raises Fault
        where nothing was found and a source that might have found something failed."""
        found = await find(
            self._sources, self._weights, query,
            passages=passages, actor=call.actor, timeout_s=timeout_s,
        )  # fmt: skip
        if not found.hits:
            raise_if_failed(found.coverage)
        return found.hits, found.failures, list(found.coverage)

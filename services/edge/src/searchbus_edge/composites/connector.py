"""search, fetch and research_brief over all sources (toolset `connector`).

search and fetch follow the contract of ChatGPT's connectors and deep research: one text item with
the JSON, the same object as structured content, and in every result a URL that a person can open.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, to_builtins

from searchbus_bus import Call, Toolset, WithMeta, Worker, tool
from searchbus_contracts import Actor, ErrorCode, Failure, Fault, ToolAnnotations
from searchbus_contracts.queries import check_query

from .fanout import Request, request_all, worst_failure
from .fusion import fuse
from .ids import unknown_id
from .passages import pick_passages
from .sources import Fetched, Hit, Source

__all__ = ["FAILURES", "Connector", "build_worker"]

R = TypeVar("R")
MAX_RESULTS = 10
MAX_QUERY_CHARS = 1000
_HITS_PER_SOURCE = 10
_BRIEF_SOURCES = 4
FAILURES = "dev.searchbus/failures"
"""The key in `_meta` of failed sources, by name or URL."""
_READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)


class Search(Struct, forbid_unknown_fields=True):
    """Arguments of search."""

    query: Annotated[str, Meta(description="What to search for, in natural language.")]


class SearchResult(Struct):
    """One result."""

    id: Annotated[str, Meta(description="For fetch.")]
    title: str
    url: Annotated[str, Meta(description="For citation.")]
    source: Annotated[str, Meta(description="documents/<collection> or web.")]


class SearchResults(Struct):
    """The answer of search."""

    results: list[SearchResult]


class Fetch(Struct, forbid_unknown_fields=True):
    """Arguments of fetch."""

    id: Annotated[str, Meta(description="The id of a search result.")]


class FetchedDocument(Struct):
    """The answer of fetch."""

    id: str
    title: str
    text: Annotated[str, Meta(description="The full text.")]
    url: str
    metadata: dict[str, str]


class Brief(Struct, forbid_unknown_fields=True):
    """Arguments of research_brief."""

    question: Annotated[str, Meta(description="The question to find evidence for.")]


class Passage(Struct):
    """A passage that speaks to the question."""

    citation: Annotated[int, Meta(description="Number of its source.")]
    text: str


class CitedSource(Struct):
    """A source of the brief."""

    citation: int
    id: str
    title: str
    url: str
    source: str


class BriefAnswer(Struct):
    """The answer of research_brief."""

    question: str
    passages: list[Passage]
    sources: list[CitedSource]


class Connector(Toolset, name="connector"):
    """The composites over their sources.

    Args:
        sources: in the order of their importance, with their weights; 0 leaves a source out.
    """

    def __init__(self, sources: Sequence[tuple[Source, float]]) -> None:
        self._sources = [source for source, weight in sources if weight > 0]
        self._weights = {source.name: weight for source, weight in sources}

    @tool(
        title="Search documents and the web",
        annotations=_READ_ONLY,
        timeout_ms=20_000,
        examples=("find documents about a topic", "search everything"),
        keywords=("documents", "web", "knowledge", "sources", "internet"),
    )
    async def search(self, call: Call, arguments: Search) -> WithMeta[SearchResults]:
        """Search the document collections and the web at once. Returns ids for fetch, titles and
        URLs for citation.
        """
        query = check_query(arguments.query, max_chars=MAX_QUERY_CHARS)
        hits, failures = await self._find(call, query, call.remaining_s)
        results = [SearchResult(h.id, h.title, h.url, h.source) for h in hits[:MAX_RESULTS]]
        return _with_failures(SearchResults(results), failures)

    @tool(
        title="Fetch a search result",
        annotations=_READ_ONLY,
        timeout_ms=45_000,
        keywords=("document", "full text", "read", "page"),
    )
    async def fetch(self, call: Call, arguments: Fetch) -> FetchedDocument:
        """Retrieve the full text of a search result by its id."""
        fetched = await self._fetch(call, arguments.id, call.remaining_s)
        return FetchedDocument(
            fetched.id, fetched.title, fetched.text, fetched.url, fetched.metadata
        )

    @tool(
        title="Gather evidence for a question",
        annotations=_READ_ONLY,
        timeout_ms=60_000,
        examples=("gather evidence with citations", "research a question in several sources"),
        keywords=("research", "citations", "evidence", "summary", "report"),
    )
    async def research_brief(self, call: Call, arguments: Brief) -> WithMeta[BriefAnswer]:
        """Search documents and the web, read the best few sources, and return the passages
        that speak to the question, each with its citation.
        """
        question = check_query(arguments.question, max_chars=MAX_QUERY_CHARS, field="question")
        await call.progress(0, 3, "searching")
        hits, failures = await self._find(call, question, call.remaining_s * 0.4)
        chosen = hits[:_BRIEF_SOURCES]
        await call.progress(1, 3, f"reading {len(chosen)} of {len(hits)} sources")
        requests: dict[str, Request] = {
            hit.id: functools.partial(self._fetch, call, hit.id) for hit in chosen
        }
        read = await request_all(requests, timeout_s=call.remaining_s)
        await call.progress(2, 3, "picking passages")
        passages, sources = [], []
        for number, hit in enumerate(chosen, 1):
            fetched: Fetched | None = read.replies.get(hit.id)
            texts = pick_passages(question, fetched.text if fetched is not None else "", hit.text)
            if texts:
                sources.append(CitedSource(number, hit.id, hit.title, hit.url, hit.source))
                passages += [Passage(number, text) for text in texts]
        unread = {hit.url: read.failures[hit.id] for hit in chosen if hit.id in read.failures}
        await call.progress(3, 3, "done")
        return _with_failures(BriefAnswer(question, passages, sources), {**failures, **unread})

    async def _find(
        self, call: Call, query: str, timeout_s: float
    ) -> tuple[list[Hit], Mapping[str, Failure]]:
        serving = [source for source in self._sources if source.serves(call.actor)]
        if not serving:
            raise Fault(ErrorCode.UNAVAILABLE, "No source can be searched now. Try again later.")
        requests: dict[str, Request] = {
            source.name: functools.partial(_search, source, query, call.actor) for source in serving
        }
        gathered = await request_all(requests, timeout_s=timeout_s)
        if not gathered.replies:
            raise worst_failure(gathered.failures)
        return fuse(gathered.replies, self._weights), gathered.failures

    async def _fetch(self, call: Call, hit_id: str, timeout_s: float) -> Fetched:
        for source in self._sources:
            found = await source.fetch(hit_id.strip(), actor=call.actor, timeout_s=timeout_s)
            if found is not None:
                return found
        raise unknown_id()


async def _search(source: Source, query: str, actor: Actor, timeout_s: float) -> list[Hit]:
    return await source.search(query, _HITS_PER_SOURCE, actor=actor, timeout_s=timeout_s)


def build_worker(connector: Connector, *, max_in_flight: int = 256) -> Worker:
    """The connector as a worker on the bus."""
    worker = Worker(
        "connector",
        max_in_flight=max_in_flight,
        description="One question to documents and the web.",
    )
    worker.add(connector)
    return worker


def _with_failures(value: R, failures: Mapping[str, Failure]) -> WithMeta[R]:
    """A result; where sources failed, `_meta` names them and how they failed."""
    if not failures:
        return WithMeta(value)
    described = {name: to_builtins(failure) for name, failure in failures.items()}
    return WithMeta(value, {FAILURES: described})

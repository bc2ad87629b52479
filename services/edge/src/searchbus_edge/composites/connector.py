"""search, fetch and research_brief over all sources (toolset `connector`).

search and fetch follow the contract of ChatGPT's connectors and deep research: one text item with
the JSON, the same object as structured content, and in every result a URL that a person can open.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from searchbus_bus import Call, Worker
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Failure,
    Fault,
    ToolAnnotations,
    ToolReply,
    describe_tool,
)

from .fanout import Request, request_all, worst_failure
from .fusion import fuse
from .ids import unknown_id
from .sources import Fetched, Hit, Source

__all__ = ["TOOLSET", "Connector", "build_worker"]

TOOLSET = "connector"
MAX_RESULTS = 10
_HITS_PER_SOURCE = 10
_BRIEF_SOURCES = 4
_PASSAGES_PER_SOURCE = 2
_PASSAGE_CHARS = 1200
FAILURES = "dev.searchbus/failures"
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


SEARCH = describe_tool(
    "search",
    toolset=TOOLSET,
    title="Search documents and the web",
    description="Search the document collections and the web at once. Returns ids for fetch, "
    "titles and URLs for citation.",
    arguments=Search,
    reply=SearchResults,
    renderer="json",
    annotations=_READ_ONLY,
    timeout_ms=20_000,
    examples=("find documents about a topic", "search everything"),
    keywords=("documents", "web", "knowledge", "sources", "internet"),
)
FETCH = describe_tool(
    "fetch",
    toolset=TOOLSET,
    title="Fetch a search result",
    description="Retrieve the full text of a search result by its id.",
    arguments=Fetch,
    reply=FetchedDocument,
    renderer="json",
    annotations=_READ_ONLY,
    timeout_ms=45_000,
    keywords=("document", "full text", "read", "page"),
)
RESEARCH_BRIEF = describe_tool(
    "research_brief",
    toolset=TOOLSET,
    title="Gather evidence for a question",
    description="Search documents and the web, read the best few sources, and return the passages "
    "that speak to the question, each with its citation.",
    arguments=Brief,
    reply=BriefAnswer,
    renderer="json",
    annotations=_READ_ONLY,
    timeout_ms=60_000,
    examples=("gather evidence with citations", "research a question in several sources"),
    keywords=("research", "citations", "evidence", "summary", "report"),
)


class Connector:
    """The composites over their sources.

    Args:
        sources: in the order of their importance, with their weights.
    """

    def __init__(self, sources: Sequence[tuple[Source, float]]) -> None:
        self._sources = [source for source, weight in sources if weight > 0]
        self._weights = {source.name: weight for source, weight in sources}

    async def search(self, call: Call, arguments: Search) -> ToolReply:
        """Every source at once; partial answers name in _meta what failed."""
        query = _checked("query", arguments.query)
        hits, failures = await self._find(call, query, call.remaining_s)
        results = [SearchResult(h.id, h.title, h.url, h.source) for h in hits[:MAX_RESULTS]]
        return _reply(SearchResults(results), failures)

    async def fetch(self, call: Call, arguments: Fetch) -> ToolReply:
        """The full text behind an id; raises Fault(not_found)."""
        fetched = await self._fetch(call, arguments.id, call.remaining_s)
        answer = FetchedDocument(
            fetched.id, fetched.title, fetched.text, fetched.url, fetched.metadata
        )
        return _reply(answer, {})

    async def brief(self, call: Call, arguments: Brief) -> ToolReply:
        """Search, read the best few, pick the passages; tells how far it is."""
        question = _checked("question", arguments.question)
        await call.progress(0, 3, "searching")
        hits, failures = await self._find(call, question, call.remaining_s * 0.4)
        chosen = hits[:_BRIEF_SOURCES]
        await call.progress(1, 3, f"reading {len(chosen)} of {len(hits)} sources")
        legs: dict[str, Request] = {
            hit.id: functools.partial(self._fetch, call, hit.id) for hit in chosen
        }
        read = await request_all(legs, timeout_s=call.remaining_s)
        await call.progress(2, 3, "picking passages")
        passages, sources = [], []
        for number, hit in enumerate(chosen, 1):
            fetched: Fetched | None = read.replies.get(hit.id)
            texts = _passages(question, fetched.text if fetched is not None else "", hit.text)
            if texts:
                sources.append(CitedSource(number, hit.id, hit.title, hit.url, hit.source))
                passages += [Passage(number, text) for text in texts]
        failures = {**failures, **{hit.url: read.failures[hit.id] for hit in chosen
                                   if hit.id in read.failures}}  # fmt: skip
        await call.progress(3, 3, "done")
        return _reply(BriefAnswer(question, passages, sources), failures)

    async def _find(
        self, call: Call, query: str, timeout_s: float
    ) -> tuple[list[Hit], Mapping[str, Failure]]:
        serving = [source for source in self._sources if source.serves(call.actor)]
        if not serving:
            raise Fault(ErrorCode.UNAVAILABLE, "No source can be searched now. Try again later.")
        legs: dict[str, Request] = {
            source.name: functools.partial(_search, source, query, call.actor) for source in serving
        }
        gathered = await request_all(legs, timeout_s=timeout_s)
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
    worker.tool(SEARCH, Search, connector.search)
    worker.tool(FETCH, Fetch, connector.fetch)
    worker.tool(RESEARCH_BRIEF, Brief, connector.brief)
    return worker


def _checked(name: str, text: str) -> str:
    stripped = " ".join(text.split())
    if not stripped:
        raise Fault(ErrorCode.INVALID_QUERY, f"{name} is empty. Say what to search for.")
    if len(stripped) > 1000:
        raise Fault(
            ErrorCode.INVALID_QUERY,
            f"{name} has {len(stripped)} characters; at most 1000 are allowed.",
        )
    return stripped


def _reply(answer: Any, failures: Mapping[str, Failure]) -> ToolReply:
    structured: dict[str, Any] = to_builtins(answer)
    if not failures:
        return ToolReply(structured=structured)
    told = {name: to_builtins(failure) for name, failure in failures.items()}
    return ToolReply(structured=structured, meta={FAILURES: told})


_WORD = re.compile(r"\w{3,}")


def _passages(question: str, text: str, found: str) -> list[str]:
    """What search found, and the paragraphs of the text that share most words with the question."""
    wanted = {word.lower() for word in _WORD.findall(question)}
    inner = re.sub(r"</?untrusted_text_\w+>", "", text)
    scored: list[tuple[float, int, str]] = []
    for place, paragraph in enumerate(re.split(r"\n\s*\n", inner)):
        words = {word.lower() for word in _WORD.findall(paragraph)}
        if len(words) >= 8:
            scored.append((-len(words & wanted) / (len(wanted) or 1), place, paragraph.strip()))
    best = [p for score, _, p in sorted(scored)[:_PASSAGES_PER_SOURCE] if score < 0]
    chosen = [found.strip(), *best] if found.strip() else best
    unique: list[str] = []
    for passage in chosen:
        if not any(passage in other or other in passage for other in unique):
            unique.append(passage[:_PASSAGE_CHARS])
    return unique[: _PASSAGES_PER_SOURCE + 1]

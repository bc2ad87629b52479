"""search_many: up to ten queries at once, one list of results (toolset `bulk`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from searchbus_bus import Call, Toolset, tool
from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.codec import doc
from searchbus_contracts.coverage import SourceCoverage, shown
from searchbus_contracts.queries import check_query, too_small
from searchbus_contracts.tools import READ_ONLY_OUTSIDE
from searchbus_contracts.visible import marked
from searchbus_passages import DEFAULT_TOKENS, beginning, count, fit_count, holds

from .gathering import Coverage, Found, find, fuse, keys_of, raise_if_failed
from .sources import MAX_QUERY_CHARS, UNTRUSTED, Budget, Source, SourceHit

BULK = "bulk"
"""The toolset of tools that do at once what would take many calls."""
MAX_QUERIES = 10
_SNIPPET_TOKENS = 80


class SearchMany(Struct, forbid_unknown_fields=True):
    """Arguments of search_many."""

    queries: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS)]],
        doc("In natural language.", min_length=1, max_length=MAX_QUERIES),
    ]
    sources: Annotated[
        list[Annotated[str, Meta(max_length=64)]],
        doc("documents, web; none named: both.", max_length=8),
    ] = []
    max_results: Annotated[int, doc("Of all queries together.", ge=1, le=100)] = 20
    max_tokens: Budget = DEFAULT_TOKENS
    timeout_s: Annotated[
        float, doc("For all queries; then those that ended count.", gt=0, le=40)
    ] = 20.0


class ManyResult(Struct):
    """One result."""

    id: Annotated[str, doc("For fetch.")]
    title: Annotated[str, doc(UNTRUSTED)]
    url: Annotated[str, doc("For citation.")]
    source: Annotated[str, doc("documents/<collection> or web.")]
    queries: Annotated[list[int], doc("The queries that found it, from 0.")]
    text: Annotated[str, doc(f"A passage or snippet of it. {UNTRUSTED}")]


class QueryCoverage(Struct, omit_defaults=True):
    """What one query gave."""

    query: str
    found: Annotated[int, doc("Results, also those that other queries found.")]
    coverage: Coverage = []


class ManyResults(Struct, omit_defaults=True):
    """The answer of search_many."""

    untrusted: Annotated[bool, doc("Whether others wrote titles and texts.")]
    results: Annotated[list[ManyResult], doc("Best first, each page once.")]
    queries: Annotated[list[QueryCoverage], doc("In the order of the arguments.")]
    truncated: Annotated[
        bool, doc("Whether results were left out for max_results or max_tokens.")
    ] = False


class Many(Toolset, name=BULK):
    """Asks the connector's sources, by importance (0 leaves one out), several queries at once."""

    def __init__(self, sources: Sequence[tuple[Source, float]]) -> None:
        self._sources = [source for source, weight in sources if weight > 0]
        self._weights = {source.name: weight for source, weight in sources}

    @tool(
        title="Search for several queries at once",
        annotations=READ_ONLY_OUTSIDE,
        untrusted=True,
        timeout_ms=45_000,
        examples=(
            "search for several questions in one request",
            "run ten searches at once and merge their results",
        ),
        keywords=("queries", "batch", "parallel", "multiple", "fused"),
    )
    async def search_many(self, call: Call, arguments: SearchMany) -> ManyResults:
        """Search documents and the web for up to ten queries at once. Returns one list: a page
        that several queries find is listed once and first; what each query gave is named beside.
        """
        queries = list(
            dict.fromkeys(
                check_query(query, max_chars=MAX_QUERY_CHARS, field=f"queries.{number}")
                for number, query in enumerate(arguments.queries)
            )
        )
        sources = self._chosen(arguments.sources)
        timeout_s = min(arguments.timeout_s, call.remaining_s)
        ended = 0

        async def ask(query: str) -> Found:
            nonlocal ended
            found = await find(
                sources, self._weights, query,
                passages=1, actor=call.actor, timeout_s=timeout_s,
            )  # fmt: skip
            ended += 1
            await call.progress(ended, len(queries), query)
            return found

        found = await asyncio.gather(*map(ask, queries))
        hits = fuse({str(n): one.hits for n, one in enumerate(found)}, {})
        if not hits:
            parts: list[SourceCoverage] = [part for one in found for part in one.coverage]
            raise_if_failed(parts)
        keys = keys_of([one.hits for one in found])
        queries_of: dict[str, list[int]] = {}
        for number, one in enumerate(found):
            for hit in one.hits:
                queries_of.setdefault(keys[hit.id], []).append(number)
        covered = [
            QueryCoverage(query, len(one.hits), shown(one.coverage))
            for query, one in zip(queries, found, strict=True)
        ]

        def fitted() -> ManyResults:
            best = hits[: arguments.max_results]
            results = [_shown(hit, queries_of[keys[hit.id]]) for hit in best]

            def first(kept: int) -> ManyResults:
                return ManyResults(True, results[:kept], covered, truncated=kept < len(hits))

            most = arguments.max_tokens
            answer = first(fit_count(len(results), most, lambda kept: encode(first(kept))))
            if not answer.results and not holds(encoded := encode(answer), most):
                raise too_small(most, count(encoded.decode()))
            return answer

        return await asyncio.to_thread(fitted)  # counting takes tens of milliseconds

    def _chosen(self, names: Sequence[str]) -> list[Source]:
        """The sources of these names; raises Fault(invalid_argument) for an unknown one."""
        known = [source.name for source in self._sources]
        for name in names:
            if name not in known:
                raise Fault(
                    ErrorCode.INVALID_ARGUMENT,
                    f"sources: there is no {name[:64]}. Use {' or '.join(known)}.",
                )
        return [source for source in self._sources if not names or source.name in names]


def _shown(hit: SourceHit, queries: list[int]) -> ManyResult:
    text = hit.passages[0].text if hit.passages else ""
    text = text[: beginning(text, _SNIPPET_TOKENS)]
    return ManyResult(hit.id, hit.title, hit.url, hit.source, queries, marked(text) if text else "")

"""The tools and prompts of toolset `fomc`, over the collection of that name; and all tools of the
service by one import."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from searchbus_bus import Call, Toolset, WithMeta, prompt, tool
from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.queries import MAX_TOKENS, MIN_TOKENS, Part, too_small
from searchbus_contracts.retrieval import EXPLANATION, MAX_TOP_K, Document, Explanation, SearchHit
from searchbus_contracts.tools import READ_ONLY
from searchbus_passages import DEFAULT_TOKENS, BudgetTooSmallError, fit_beginning

from .access import OPEN, Access
from .fitting import Fitted, fit
from .library import Library
from .memory import MemoryTools
from .ranking.explaining import CollectionAnswer

__all__ = ["FomcPrompts", "FomcTools", "MemoryTools", "SearchFomc", "search_corpus"]

COLLECTION = "fomc"
ALIASES = {
    "document_name": "title",
    "document_date": "date",
    "document_type": "type",
    "section_header": "section",
    "source_url": "url",
}
"""Names of the tool → names of the collection."""


async def search_corpus(
    library: Library, query: str, top_k: int, where: dict[str, Any] | None, *, explain: bool = False
) -> CollectionAnswer:
    """Search the corpus, as every search of its collection does.

    Raises:
        Fault: invalid_query, invalid_argument, empty_corpus.
    """
    try:
        found = await library.searcher.answer(
            COLLECTION, query, limit=top_k, where=where, aliases=ALIASES, explain=explain
        )
    except Fault as fault:
        if fault.code != ErrorCode.NOT_FOUND:
            raise
    else:
        if found.hits or await library.count_documents(COLLECTION):
            return found
    raise Fault(
        ErrorCode.EMPTY_CORPUS,
        "No FOMC documents are ingested yet. Run `searchbus ingest fomc --collection fomc`, "
        "or ingest a JSONL file of them.",
    )


class SearchFomc(Struct, forbid_unknown_fields=True):
    """Arguments of search_fomc."""

    query: Annotated[str, Meta(description="Natural language search query, 1 to 1000 characters")]
    top_k: Annotated[
        int, Meta(ge=1, le=MAX_TOP_K, description="Number of results to return (max 50)")
    ] = 5
    where: Annotated[
        dict[str, Any] | UnsetType,
        Meta(
            description="ChromaDB metadata filter with $and $or $eq $ne $gt $gte $lt $lte $in $nin "
            "on document_date, document_type, document_name, document_id, section_header, and on "
            "what was read of votes and decisions: dissenters, voters (full name or surname), "
            "dissents, decision (raise, lower, maintain), target_low, target_high, change_bp "
            '(e.g., {"$and": [{"document_date": {"$gte": "2024-01-01"}}, '
            '{"document_date": {"$lte": "2024-12-31"}}]})'
        ),
    ] = UNSET
    explain: Annotated[
        bool, Meta(description="Say why each result stands where it does (for debugging)")
    ] = False
    max_tokens: Annotated[
        int,
        Meta(
            ge=MIN_TOKENS,
            le=MAX_TOKENS,
            description="Budget of tokens for all results; passages are cut to what answers",
        ),
    ] = DEFAULT_TOKENS
    cursor: Annotated[
        str | UnsetType, Meta(description="The cursor of the last result, for those behind it")
    ] = UNSET


class FomcPassage(Struct):
    """One result of search_fomc."""

    chunk_id: Annotated[str, Meta(description="Unique identifier of the matched chunk")]
    document_name: Annotated[str, Meta(description="Title of the source FOMC document")]
    document_date: Annotated[str, Meta(description="Date of the FOMC document (ISO)")]
    document_id: Annotated[
        str, Meta(description="ID of the parent document (for use with get_document)")
    ]
    section_header: Annotated[
        str | None, Meta(description="Section of the document this chunk belongs to")
    ]
    chunk_text: Annotated[str, Meta(description="The matched text passage")]
    relevance_score: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Relevance by meaning, words, date and document type; results are in its "
            "order, and it compares results of one search only",
        ),
    ]
    cosine_similarity: Annotated[
        float,
        Meta(ge=0, le=1, description="Cosine similarity of query and passage, one part of it"),
    ]
    relevance_probability: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Probability that this passage answers the query, comparable between "
            "searches; where all are below 0.3, the corpus has no answer",
        ),
    ] = 0.0
    start: (
        Annotated[
            int,
            Meta(description="chunk_text is full_text of the document from here, in characters"),
        ]
        | UnsetType
    ) = UNSET
    end: Annotated[int, Meta(description="To here, exclusive")] | UnsetType = UNSET
    content_hash: (
        Annotated[str, Meta(description="SHA-256 of the document's full_text in UTF-8, in hex")]
        | UnsetType
    ) = UNSET
    truncated: Annotated[
        bool | UnsetType, Meta(description="With max_tokens: chunk_text is a part of the chunk")
    ] = UNSET
    cursor: Annotated[
        str | UnsetType, Meta(description="On the last result, where there are more: their cursor")
    ] = UNSET
    explanation: (
        Annotated[
            Explanation,
            Meta(description="With `explain`; shares and boosts are those before `relevance_score` "
                 "was brought between 0 and 1"),
        ]
        | UnsetType
    ) = UNSET  # fmt: skip


class GetDocument(Struct, forbid_unknown_fields=True):
    """Arguments of get_document."""

    document_id: Annotated[
        str,
        Meta(
            description="Unique identifier of the document; document_id#start-end for a part of "
            "its text, in characters"
        ),
    ]
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=MIN_TOKENS,
                le=MAX_TOKENS,
                description="The most that the answer may take; without it the text is complete",
            ),
        ]
        | UnsetType
    ) = UNSET


class FomcDocument(Struct, omit_defaults=True):
    """The result of get_document."""

    id: Annotated[str, Meta(description="Document ID")]
    title: Annotated[str, Meta(description="Document title")]
    date: Annotated[str, Meta(description="Document date (ISO)")]
    document_type: Annotated[str, Meta(description='"statement" or "minutes"')]
    source_url: Annotated[str, Meta(description="Original URL on federalreserve.gov")]
    full_text: Annotated[str, Meta(description="Complete document text")]
    chunk_count: Annotated[int, Meta(description="Number of chunks generated from this document")]
    start: Annotated[int, Meta(description="Where full_text begins, if it is only a part")] = 0
    truncated: Annotated[
        bool, Meta(description="Whether full_text ends before the text does, for max_tokens")
    ] = False
    cursor: Annotated[str | UnsetType, Meta(description="The document_id for the rest")] = UNSET


class FomcTools(Toolset, name="fomc"):
    """The tools over the collection `fomc`."""

    def __init__(self, library: Library, access: Access = OPEN) -> None:
        self._library = library
        self._access = access

    @tool(
        title="Search FOMC documents",
        annotations=READ_ONLY,
        untrusted=True,
        timeout_ms=15_000,
        examples=(
            "why did the Committee change interest rates",
            "what did the Fed say about a subject",
            "views of the members of the Federal Reserve on inflation and employment",
            "passages of the Federal Reserve's minutes about a subject",
            "remarks of the participants on a risk",
        ),
        keywords=("Federal Reserve", "Fed", "interest rates", "monetary policy", "minutes"),
    )
    async def search_fomc(self, call: Call, arguments: SearchFomc) -> WithMeta[list[FomcPassage]]:
        """Search the FOMC document corpus using semantic similarity."""
        self._access.require(call.actor, COLLECTION)
        where = None if isinstance(arguments.where, UnsetType) else arguments.where
        found = await search_corpus(
            self._library, arguments.query, arguments.top_k, where, explain=arguments.explain
        )
        # Preferences lift scores above 1.
        best = max((hit.score for hit in found.hits), default=0.0)

        def passages(fitted: Fitted) -> list[FomcPassage]:
            shown = [_passage(hit, best) for hit in fitted.hits]
            if fitted.cursor is not None:
                shown[-1].cursor = fitted.cursor
            return shown

        fitted = await fit(
            found.hits,
            arguments.max_tokens,
            passages,
            query=arguments.query,
            highlights=self._library.highlights,
            cursor=arguments.cursor or None,
        )
        if found.reading is None:
            return WithMeta(passages(fitted))
        # The specification shows an array: beside it there is no place but `_meta`.
        about = {"reading": found.reading, "left_out": found.left_out}
        return WithMeta(passages(fitted), {EXPLANATION: msgspec.to_builtins(about)})

    @tool(
        title="Get an FOMC document",
        annotations=READ_ONLY,
        untrusted=True,
        timeout_ms=30_000,
        examples=(
            "the complete minutes of a meeting of the Federal Reserve",
            "the entire statement of a meeting, by its document id",
        ),
        keywords=("Federal Reserve", "full text", "complete", "entire", "whole"),
    )
    async def get_document(self, call: Call, arguments: GetDocument) -> FomcDocument:
        """Retrieve the full text and metadata of a specific FOMC document."""
        part = Part.of(arguments.document_id, "document_id")
        if not part.id:
            raise Fault(ErrorCode.NOT_FOUND, "document_id is empty. Take it from search_fomc.")
        self._access.require(call.actor, COLLECTION)
        document = await self._library.get_from(
            [COLLECTION], part.id, start=part.start, end=part.end
        )
        most = arguments.max_tokens
        if isinstance(most, UnsetType):
            # The specification has the complete text, and no document of the FOMC is too long.
            return _shown(part, document, len(document.text))
        return await asyncio.to_thread(_fitted, part, document, most)


def _shown(part: Part, document: Document, length: int) -> FomcDocument:
    found = FomcDocument(
        id=document.document_id,
        title=document.title,
        date=str(document.metadata.get("date") or ""),
        document_type=str(document.metadata.get("type") or ""),
        source_url=document.url or "",
        full_text=document.text[:length],
        chunk_count=document.chunk_count,
        start=document.start,
    )
    if length < len(document.text):
        found.truncated = True
        found.cursor = str(Part(part.id, document.start + length, part.end))
    return found


def _fitted(part: Part, document: Document, most: int) -> FomcDocument:
    """The document with as many whole sentences of its text as fit."""

    def json_of(length: int) -> bytes:
        return encode(_shown(part, document, length))

    try:
        return _shown(part, document, fit_beginning(document.text, most, json_of))
    except BudgetTooSmallError as error:
        raise too_small(most, error.least) from None


def _passage(hit: SearchHit, best: float) -> FomcPassage:
    return FomcPassage(
        chunk_id=hit.chunk_id,
        document_name=hit.title,
        document_date=str(hit.metadata.get("date") or ""),
        document_id=hit.document_id,
        section_header=hit.section,
        chunk_text=hit.text,
        # What lowers a passage may leave it less than nothing.
        relevance_score=round(max(0.0, hit.score) / max(1.0, best), 4),
        cosine_similarity=round(hit.cosine, 4),
        relevance_probability=hit.relevance or 0.0,
        start=UNSET if hit.start is None else hit.start,
        end=UNSET if hit.end is None else hit.end,
        content_hash=hit.content_hash or UNSET,
        truncated=hit.truncated or UNSET,
        explanation=hit.explanation or UNSET,
    )


class FomcPrompts(Toolset, name="fomc"):
    """Ways of working with the FOMC tools."""

    @prompt(
        title="Compare two FOMC statements",
        keywords=("Federal Reserve", "Fed", "monetary policy", "difference", "redline", "wording"),
    )
    def compare_fomc_statements(
        self,
        earlier: Annotated[str, Meta(description="Date of the earlier meeting.")],
        later: Annotated[str, Meta(description="Date of the later meeting.")],
        focus: Annotated[str, Meta(description="A topic to look at, such as inflation.")] = "",
    ) -> str:
        """What changed between two statements of the Federal Open Market Committee, sentence by
        sentence, and what it signals."""
        return f"""Compare the FOMC statements of {earlier} and {later}.

Focus (everything, where empty): {focus}

1. Find both statements with search_fomc, filtering by document_date and document_type "statement";
   read each whole with get_document. If one is not there, name the nearest meetings and stop.
2. Go through them sentence by sentence: what was added, dropped, reworded. Quote both wordings.
3. Give the policy decision of each: target range, balance sheet, votes for and against.
4. Say what each change signals about the economy and the path of policy; keep what the text says
   apart from what you infer. Where the minutes explain a change, quote them with their date.
5. End with three lines: more hawkish or more dovish, the one most telling change, what stayed."""

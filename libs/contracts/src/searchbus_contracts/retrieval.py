"""Typed requests to the retrieval service that read: search, get, quote, list (§10).

Dates are ISO 8601 (`2024-01-31`). Metadata values are strings, numbers or booleans. What stores and
deletes is in ingest.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .codec import doc
from .queries import MAX_TOKENS, MIN_TOKENS
from .tools import Name

MAX_QUERY_CHARS = 1000
MAX_TOP_K = 50
MAX_COMPARED, MAX_COMPARED_CHARS = 48, 1_200
"""Texts of one similarity request, and their length: each costs milliseconds."""
LEAST_RELEVANCE = 0.3
"""Below it a hit probably does not answer. Less than a half, since an answer that is lost costs
more than one that is read in vain."""

Metadata = dict[str, str | int | float | bool | None]
FieldType = Literal["keyword", "integer", "float", "datetime", "bool"]
DocumentId = Annotated[str, Meta(min_length=1, max_length=512)]
ContentHash = Annotated[str | None, doc("SHA-256 of the document's whole text in UTF-8, in hex.")]


class SearchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hybrid search over one or several collections."""

    query: Annotated[str, doc("1 to 1000 characters, else invalid_query.")]
    collections: Annotated[
        tuple[Name, ...], doc("Empty: every collection that the actor may read.")
    ] = ()
    limit: Annotated[int, Meta(ge=1, le=MAX_TOP_K)] = 5
    where: Annotated[dict[str, Any] | None, doc("Chroma-style filter on metadata fields.")] = None
    per_document: Annotated[bool, doc("At most one hit for each document, the best one.")] = False
    relevant_only: Annotated[
        bool,
        doc(
            "Leave out hits that probably do not answer, or are far behind the best "
            "one. Literal hits stay."
        ),
    ] = False
    explain: Annotated[
        bool, doc("Say why each hit stands where it does, and what was left out.")
    ] = False
    max_tokens: (
        Annotated[
            int,
            doc(
                "Budget of tokens for the reply's JSON, by the rule of libs/passages. Hits are "
                "cut at sentences, and the last ones left out.",
                ge=MIN_TOKENS,
                le=MAX_TOKENS,
            ),
        ]
        | None
    ) = None
    cursor: Annotated[str | None, doc("`next_cursor` of the reply before.")] = None


class SearchHit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chunk that matched, best first."""

    collection: Name
    document_id: DocumentId
    chunk_id: str
    title: str
    text: str
    score: Annotated[float, doc("Fused rank score, comparable within one reply.")]
    cosine: Annotated[float, doc("Cosine similarity to the query.", ge=0, le=1)]
    relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        doc(
            "The probability that it answers the query, comparable between queries and collections."
        ),
    ] = None
    literal: Annotated[
        bool, doc("Whether the query, or all that it quotes, stands in the text or title.")
    ] = False
    url: str | None = None
    section: str | None = None
    metadata: Metadata = {}
    start: Annotated[
        int | None, doc("`text` is the document's text from here to `end`, in characters.")
    ] = None
    end: int | None = None
    content_hash: ContentHash = None
    truncated: Annotated[bool, doc("Whether `text` is a part of the chunk.")] = False
    explanation: Annotated[Explanation | None, doc("With `explain`.")] = None


class SearchReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hits of all collections, and the collections that could not be searched."""

    hits: tuple[SearchHit, ...]
    failed: Annotated[dict[str, str], doc("Collection → failure code, where one failed.")] = {}
    searched: Annotated[
        tuple[Name, ...], doc("Collections that were searched, also without hits.")
    ] = ()
    readings: Annotated[dict[Name, Reading], doc("With `explain`: collection → its reading.")] = {}
    left_out: Annotated[
        tuple[LeftOut, ...], doc("With `explain`: the best candidates that were left out.")
    ] = ()
    truncated: Annotated[bool, doc("With `max_tokens`: whether hits were cut or left out.")] = False
    next_cursor: Annotated[str | None, doc("Cursor of the hits left out for `max_tokens`.")] = None


class GetRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Get a document or a part of its text; without a collection, every readable one is searched.

    A `start` at or beyond the text's end is invalid_argument.
    """

    document_id: DocumentId
    collection: Name | None = None
    start: Annotated[int, doc("In characters of the text.", ge=0)] = 0
    end: Annotated[int, doc("Null: the text's end.", ge=1)] | None = None


class Document(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document; the text is exactly the ingested one, from `start` to `end`."""

    collection: Name
    document_id: DocumentId
    title: str
    text: str
    chunk_count: int
    url: str | None = None
    metadata: Metadata = {}
    start: int = 0
    end: Annotated[int | None, doc("Null: the text's end.")] = None
    chars: Annotated[int | None, doc("Length of the whole text.")] = None
    content_hash: ContentHash = None


class QuoteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Find a quotation in a document; without a collection, every readable one is searched."""

    document_id: DocumentId
    quote: Annotated[str, doc("1 to 2000 characters without white space, else invalid_argument.")]
    collection: Name | None = None


class QuoteDifference(Struct, frozen=True):
    """What a quotation says and what stands in the document; one of them may be empty."""

    quote: str
    document: str


class QuoteReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a quotation stands, or the nearest place."""

    collection: Name
    document_id: DocumentId
    title: str
    match: Annotated[
        Literal["exact", "equivalent", "nearest", "none"],
        doc(
            "equivalent: only case, white space, dashes, quotation marks differ. "
            "none: the document has nothing like it; then start and end are 0."
        ),
    ]
    start: int = 0
    end: int = 0
    text: Annotated[str, doc("The document's text from start to end.")] = ""
    similarity: Annotated[float, Meta(ge=0, le=1)] = 0.0
    differences: Annotated[
        tuple[QuoteDifference, ...], doc("Differences at the nearest place, in order, at most 20.")
    ] = ()
    url: str | None = None
    content_hash: ContentHash = None


class SimilarityRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How near texts are to a question, by the service's model."""

    query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY_CHARS)]
    texts: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_COMPARED_CHARS)], ...],
        Meta(min_length=1, max_length=MAX_COMPARED),
    ]


class SimilarityReply(Struct, frozen=True, kw_only=True):
    """The cosine of each text to the question."""

    cosines: tuple[float, ...]


class ListRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of a collection's documents, ordered by id, or of a document's passages, in the order
    of its text; without a collection, all collections.
    """

    collection: Name | None = None
    document_id: Annotated[
        DocumentId | None, doc("List the passages of this document of the collection.")
    ] = None
    cursor: Annotated[str, Meta(max_length=1024)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    staged: Annotated[bool, doc("List the copy that is being made (`retrieval.rebuild`).")] = False
    where: Annotated[
        dict[str, Any] | None, doc("Chroma-style filter on metadata fields, of documents.")
    ] = None


class DocumentSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document without its text."""

    collection: Name
    document_id: DocumentId
    title: str
    chunk_count: int
    revision: Annotated[str, doc("Hash of the content: equal content has an equal hash.")]
    size_bytes: int = 0
    url: str | None = None
    metadata: Metadata = {}


class Passage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage of a document, as it was cut for the search."""

    chunk_id: str
    text: str
    section: str | None = None
    start: Annotated[int | None, doc("In characters of the document; null: unknown.")] = None
    end: int | None = None
    fact: Annotated[str, doc("The fact that it was stored for; empty: it is a plain one.")] = ""


class CollectionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A collection and its filterable fields."""

    name: Name
    documents: int
    chunks: int
    fields: dict[str, FieldType] = {}
    damage: Annotated[
        str, doc("Why it is set aside, or what of it cannot be read; empty: nothing.")
    ] = ""
    model: Annotated[str, doc("What made its vectors; empty: unknown.")] = ""


class ListReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of documents or passages, or the collections where the request names none."""

    documents: tuple[DocumentSummary, ...] = ()
    passages: tuple[Passage, ...] = ()
    collections: tuple[CollectionInfo, ...] = ()
    next_cursor: str | None = None


EXPLANATION = "dev.searchbus/explanation"
"""The key in MCP's `_meta` of what explains a whole result: its reading, and what was left out."""


class Leg(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one of the two searches, by meaning or by words, says of a hit."""

    rank: Annotated[
        Annotated[int, Meta(ge=1)] | None, doc("Among its candidates; absent: not among them.")
    ] = None
    score: Annotated[float, doc("Cosine similarity, or BM25.")]
    share: Annotated[float, doc("Its share of the fused score.")]


class Explanation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a hit stands where it does."""

    # Its score before the boosts is meaning.share + words.share (proto/README.md §10.4).

    rank: Annotated[int, doc("Within its collection, before hits are left out.", ge=1)]
    meaning: Leg
    words: Leg | None = None
    boosts: Annotated[
        dict[str, float],
        doc(
            "literal: the query stands in it; names, quantities: of the query; date, "
            "type: of the document; order: what the other documents, events and dates change."
        ),
    ] = {}


class LeftOut(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that was ranked and is not among the hits."""

    collection: str
    document_id: str
    chunk_id: str
    title: str
    reason: Annotated[
        str,
        doc(
            "limit: behind the last hit; same_document: a better passage of it is a "
            "hit; far: it probably does not answer; behind_best: far behind the nearest hit."
        ),
    ]
    score: float
    cosine: float
    relevance: Annotated[float | None, doc("The probability that it answers the query.")] = None
    floor: Annotated[
        float | None, doc("What it misses: of far the least relevance, of behind_best the cosine.")
    ] = None
    explanation: Explanation | None = None


class Reading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a collection's profile read the question."""

    words: Annotated[str, doc("The text that was searched by words.")]
    preferences: Annotated[
        dict[str, float], doc("What the question seems to mean → its boost.")
    ] = {}
    order: Annotated[
        str | None, doc("first or latest, where the question asks for one by date.")
    ] = None
    ranked: Annotated[int, doc("Passages that were ranked.", ge=0)] = 0

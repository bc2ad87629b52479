"""Typed requests to the retrieval service that read: search, get, quote, list (§10).

Dates are ISO 8601 (`2024-01-31`). Metadata values are strings, numbers or booleans. What stores and
deletes is in ingest.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .explanation import Explanation, LeftOut, Reading
from .queries import MAX_TOKENS, MIN_TOKENS
from .tools import Name

__all__ = [
    "LEAST_RELEVANCE",
    "MAX_COMPARED",
    "MAX_COMPARED_CHARS",
    "MAX_QUERY_CHARS",
    "MAX_TOP_K",
    "CollectionInfo",
    "Document",
    "DocumentId",
    "DocumentSummary",
    "FieldType",
    "GetRequest",
    "ListReply",
    "ListRequest",
    "Metadata",
    "QuoteDifference",
    "QuoteReply",
    "QuoteRequest",
    "SearchHit",
    "SearchReply",
    "SearchRequest",
    "SimilarityReply",
    "SimilarityRequest",
]

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
ContentHash = Annotated[
    str | None, Meta(description="SHA-256 of the document's whole text in UTF-8, in hex.")
]


class SearchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hybrid search over one or several collections."""

    query: Annotated[str, Meta(description="1 to 1000 characters, else invalid_query.")]
    collections: Annotated[
        tuple[Name, ...], Meta(description="Empty: every collection that the actor may read.")
    ] = ()
    limit: Annotated[int, Meta(ge=1, le=MAX_TOP_K)] = 5
    where: Annotated[
        dict[str, Any] | None, Meta(description="Chroma-style filter on metadata fields.")
    ] = None
    per_document: Annotated[
        bool, Meta(description="At most one hit for each document, the best one.")
    ] = False
    relevant_only: Annotated[
        bool,
        Meta(
            description="Leave out hits that probably do not answer, or are far behind the best "
            "one. Literal hits stay."
        ),
    ] = False
    explain: Annotated[
        bool, Meta(description="Say why each hit stands where it does, and what was left out.")
    ] = False
    max_tokens: (
        Annotated[
            int,
            Meta(
                ge=MIN_TOKENS,
                le=MAX_TOKENS,
                description="Of the reply's JSON, by the rule of libs/passages. Hits are cut at "
                "sentences, and the last ones left out.",
            ),
        ]
        | None
    ) = None
    cursor: Annotated[str | None, Meta(description="`next_cursor` of the reply before.")] = None


class SearchHit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chunk that matched, best first."""

    collection: Name
    document_id: DocumentId
    chunk_id: str
    title: str
    text: str
    score: Annotated[float, Meta(description="Fused rank score, comparable within one reply.")]
    cosine: Annotated[float, Meta(ge=0, le=1, description="Cosine similarity to the query.")]
    relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="The probability that it answers the query, comparable between queries and "
            "collections; absent: a service of an earlier release."
        ),
    ] = None
    literal: Annotated[
        bool,
        Meta(description="Whether the query, or all that it quotes, stands in the text or title."),
    ] = False
    url: str | None = None
    section: str | None = None
    metadata: Metadata = {}
    start: Annotated[
        int | None,
        Meta(description="`text` is the document's text from here to `end`, in characters."),
    ] = None
    end: int | None = None
    content_hash: ContentHash = None
    truncated: Annotated[bool, Meta(description="Whether `text` is a part of the chunk.")] = False
    explanation: Annotated[Explanation | None, Meta(description="With `explain`.")] = None


class SearchReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hits of all collections, and the collections that could not be searched."""

    hits: tuple[SearchHit, ...]
    failed: Annotated[
        dict[str, str], Meta(description="Collection → failure code, where one failed.")
    ] = {}
    searched: Annotated[
        tuple[Name, ...], Meta(description="Collections that were searched, also without hits.")
    ] = ()
    readings: Annotated[
        dict[Name, Reading], Meta(description="With `explain`: collection → its reading.")
    ] = {}
    left_out: Annotated[
        tuple[LeftOut, ...],
        Meta(description="With `explain`: the best candidates that were left out."),
    ] = ()
    truncated: Annotated[
        bool, Meta(description="With `max_tokens`: whether hits were cut or left out.")
    ] = False
    next_cursor: Annotated[
        str | None, Meta(description="Of the hits that were left out for `max_tokens`.")
    ] = None


class GetRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Get a document or a part of its text; without a collection, every readable one is searched.

    A `start` at or beyond the text's end is invalid_argument.
    """

    document_id: DocumentId
    collection: Name | None = None
    start: Annotated[int, Meta(ge=0, description="In characters of the text.")] = 0
    end: Annotated[int, Meta(ge=1, description="Null: the text's end.")] | None = None


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
    end: Annotated[int | None, Meta(description="Null: the text's end.")] = None
    chars: Annotated[int | None, Meta(description="Length of the whole text.")] = None
    content_hash: ContentHash = None


class QuoteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Find a quotation in a document; without a collection, every readable one is searched."""

    document_id: DocumentId
    quote: Annotated[
        str, Meta(description="1 to 2000 characters without white space, else invalid_argument.")
    ]
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
        Meta(
            description="equivalent: only case, white space, dashes, quotation marks differ. "
            "none: the document has nothing like it; then start and end are 0."
        ),
    ]
    start: int = 0
    end: int = 0
    text: Annotated[str, Meta(description="The document's text from start to end.")] = ""
    similarity: Annotated[float, Meta(ge=0, le=1)] = 0.0
    differences: Annotated[
        tuple[QuoteDifference, ...], Meta(description="Of the nearest place, in order, at most 20.")
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
    """A page of a collection's documents, ordered by id; without a collection, all collections."""

    collection: Name | None = None
    cursor: Annotated[str, Meta(max_length=1024)] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class DocumentSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document without its text."""

    collection: Name
    document_id: DocumentId
    title: str
    chunk_count: int
    revision: Annotated[
        str, Meta(description="Hash of the content: equal content has an equal hash.")
    ]
    size_bytes: int = 0
    url: str | None = None
    metadata: Metadata = {}


class CollectionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A collection and its filterable fields."""

    name: Name
    documents: int
    chunks: int
    fields: dict[str, FieldType] = {}
    damage: Annotated[
        str, Meta(description="Why it is set aside, or what of it cannot be read; empty: nothing.")
    ] = ""
    model: Annotated[str, Meta(description="What made its vectors; empty: unknown.")] = ""


class ListReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of documents, or the collections where the request names none."""

    documents: tuple[DocumentSummary, ...] = ()
    collections: tuple[CollectionInfo, ...] = ()
    next_cursor: str | None = None

"""Why a search gave what it gave, for requests with `explain` (proto/README.md §10.4).

A hit's score before the boosts is `meaning.share + words.share`; each boost adds to it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["EXPLANATION", "Explanation", "LeftOut", "Leg", "Reading"]

EXPLANATION = "dev.searchbus/explanation"
"""The key in MCP's `_meta` of what explains a whole result: its reading, and what was left out."""


class Leg(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one of the two searches, by meaning or by words, says of a hit."""

    rank: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Among its candidates; absent: not among them."),
    ] = None
    score: Annotated[float, Meta(description="Cosine similarity, or BM25.")]
    share: Annotated[float, Meta(description="Of the fused score.")]


class Explanation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a hit stands where it does."""

    rank: Annotated[int, Meta(ge=1, description="Within its collection, before hits are left out.")]
    meaning: Leg
    words: Leg | None = None
    boosts: Annotated[
        dict[str, float],
        Meta(
            description="literal: the query stands in it; names, quantities: of the query; date, "
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
        Meta(
            description="limit: behind the last hit; same_document: a better passage of it is a "
            "hit; far: it probably does not answer; behind_best: far behind the nearest hit."
        ),
    ]
    score: float
    cosine: float
    relevance: Annotated[
        float | None, Meta(description="The probability that it answers the query.")
    ] = None
    floor: Annotated[
        float | None,
        Meta(description="What it misses: of far the least relevance, of behind_best the cosine."),
    ] = None
    explanation: Explanation | None = None


class Reading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a collection's profile read the question."""

    words: Annotated[str, Meta(description="The text that was searched by words.")]
    preferences: Annotated[
        dict[str, float], Meta(description="What the question seems to mean → its boost.")
    ] = {}
    order: Annotated[
        str | None, Meta(description="first or latest, where the question asks for one by date.")
    ] = None
    ranked: Annotated[int, Meta(ge=0, description="Passages that were ranked.")] = 0

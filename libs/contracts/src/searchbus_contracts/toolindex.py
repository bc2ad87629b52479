"""Finding tools, prompts and resources by meaning: `toolindex.search` (§11).

The `Actor` header has the caller's roles: what the caller may not use is left out of the ranking.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .codec import doc
from .tools import Name

MAX_FIND_CHARS = 2000
Kind = Literal["tool", "prompt", "resource"]


class FindRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rank one kind of entry; the order is the same at every replica with that generation."""

    query: Annotated[str, doc("1 to 2000 characters, else invalid_query.")]
    kind: Kind = "tool"
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    toolsets: Annotated[tuple[Name, ...], doc("Only these; empty: all.")] = ()
    generation: Annotated[str | None, doc("Search this catalogue only, else invalid_argument.")] = (
        None
    )
    explain: Annotated[bool, doc("Say what decided about the best entries, left out or not.")] = (
        False
    )
    first_page: Annotated[bool, doc("With offset 0, only the matches before scores fall off.")] = (
        False
    )
    nearest: Annotated[
        int, doc("Entries in place of none, where nothing matches.", ge=0, le=10)
    ] = 0


class Found(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One match. `name` is the descriptor's name, or a resource's URI or URI template."""

    toolset: Name
    name: str
    score: Annotated[
        float, doc("Probability that it serves the query, comparable between queries.")
    ]
    cosine: Annotated[float, doc("With the nearest text, less a penalty for what is near to all.")]
    matched: Annotated[
        tuple[str, ...], doc("Words of the query that occur in the match's text.")
    ] = ()


class TextMatch(Struct, frozen=True, kw_only=True):
    """An entry beside one text of the query."""

    cosine: Annotated[float, doc("Less a penalty for what is near to all.")]
    words: Annotated[float, doc("BM25.")]
    coverage: Annotated[float, doc("Share of the text's words found, by rarity.", ge=0, le=1)]


class Considered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decided about one entry."""

    toolset: Name
    name: str
    score: Annotated[float, doc("Score of meaning and words, with `literal`.")]
    probability: float
    matches: Annotated[tuple[TextMatch, ...], doc("In the order of `texts`.")]
    literal: Annotated[
        float, doc("What it adds that the query has its name or one of its phrases.")
    ] = 0.0
    left_out: Annotated[
        str | None,
        doc(
            "Why it was left out: score or probability (of the best entry) below the "
            "least one; share: its odds are far below those of the best, or its "
            "probability below .05."
        ),
    ] = None


class FindExplanation(Struct, frozen=True, kw_only=True):
    """How a query was read, and the best entries whether they match or not, best first."""

    texts: Annotated[tuple[str, ...], doc("The query, its sentences, and readings of it.")]
    least_score: float
    least_probability: float
    considered: tuple[Considered, ...]


class FindReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of matches; empty where nothing matches the query."""

    generation: Annotated[str, doc("The catalogue that was searched.")]
    found: tuple[Found, ...] = ()
    total: Annotated[int, doc("All matches that the caller may use.", ge=0)] = 0
    first_page: Annotated[
        int, doc("The matches before scores fall off; a first page ends there.", ge=0)
    ] = 0
    uncertain: Annotated[
        bool, doc("Nothing matches: `found` has the `nearest` that were asked for.")
    ] = False
    explanation: Annotated[FindExplanation | None, doc("With `explain`.")] = None

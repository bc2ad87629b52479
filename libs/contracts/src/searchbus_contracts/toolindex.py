"""Finding tools, prompts and resources by meaning: `toolindex.search` (§11).

The `Actor` header has the caller's roles: what the caller may not use is left out of the ranking.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .tools import Name

__all__ = ["MAX_FIND_CHARS", "FindReply", "FindRequest", "Found", "Kind"]

MAX_FIND_CHARS = 2000
Kind = Literal["tool", "prompt", "resource"]


class FindRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rank one kind of entry; the order is the same at every replica with that generation."""

    query: Annotated[str, Meta(description="1 to 2000 characters, else invalid_query.")]
    kind: Kind = "tool"
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    toolsets: Annotated[tuple[Name, ...], Meta(description="Only these; empty: all.")] = ()
    generation: Annotated[
        str | None, Meta(description="Search this catalogue only, else invalid_argument.")
    ] = None


class Found(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One match. `name` is the descriptor's name, or a resource's URI or URI template."""

    toolset: Name
    name: str
    score: Annotated[
        float,
        Meta(description="Probability that it serves the query, comparable between queries."),
    ]
    cosine: Annotated[
        float, Meta(description="With the nearest text, less a penalty for what is near to all.")
    ]
    matched: Annotated[
        tuple[str, ...], Meta(description="Words of the query that occur in the match's text.")
    ] = ()


class FindReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of matches; empty where nothing matches the query."""

    generation: Annotated[str, Meta(description="The catalogue that was searched.")]
    found: tuple[Found, ...] = ()
    total: Annotated[int, Meta(ge=0, description="All matches that the caller may use.")] = 0

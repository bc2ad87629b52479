"""What a store holds and gives: vectors, points with a payload, candidates, matches, hits.

What a search makes by the hundred is a Struct: it is made in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

DIMENSIONS = 384
"""Length of the default model's dense vectors; a model of a collection may have another."""

DENSE, SPARSE = "dense", "sparse"
"""Names of a point's two vectors."""

Vector = NDArray[np.float32]
"""A dense vector of float32 values and unit length."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector: term ids and their weights, lists of equal length."""

    indices: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of a stored passage: floats of unit length, and BM25 weights."""

    dense: list[float]
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of a query. `sparse` is empty for a query of stopwords alone."""

    dense: list[float]
    sparse: Sparse


@dataclass(frozen=True, slots=True)
class Point:
    """A point to store. Without vectors only filters and ids find it."""

    id: str
    payload: dict[str, Any]
    vectors: Vectors | None = None


class Record(Struct, frozen=True, gc=False):
    """A stored point without its vectors."""

    id: str
    payload: dict[str, Any]


def records_of(found: Iterable[Any]) -> list[Record]:
    """The points that an engine returned, which have `id` and `payload`."""
    return [Record(str(one.id), one.payload or {}) for one in found]


def vectors_of(named: Any) -> Vectors | None:
    """The vectors of a point that an engine returned; None where it has none."""
    if not named:
        return None
    sparse = named[SPARSE]
    return Vectors(list(named[DENSE]), Sparse(list(sparse.indices), list(sparse.values)))


class Candidate(Struct, frozen=True, gc=False):
    """A point that one of the two searches found, with the score of that search."""

    id: str
    score: float


def only_of(found: Iterable[Candidate], others: Iterable[Candidate]) -> list[str]:
    """The ids that are in the first alone, in its order."""
    known = {candidate.id for candidate in others}
    return [candidate.id for candidate in found if candidate.id not in known]


@dataclass(frozen=True, slots=True)
class Legs:
    """What the two searches say of a match; ranks from 1, None where it is not a candidate.

    Args:
        bm25: 0 where no word of the query is in the passage.
        words_share: of the fused score; the rest is the share of the meaning.
    """

    meaning_rank: int | None
    words_rank: int | None
    bm25: float
    words_share: float


class Match(Struct, frozen=True, gc=False):
    """A point that a hybrid search found, without its payload.

    Attributes:
        score: fused, 0..1 within one search.
        words: its BM25 score, 0..1 within one query; 0 where only the meaning found it.
        legs: of a search with `explain`.
    """

    id: str
    score: float
    cosine: float
    words: float
    legs: Legs | None = None


class Hit(Struct, frozen=True, gc=False):
    """A search result: the fused score (0..1, within one query) and the cosine similarity."""

    id: str
    score: float
    cosine: float
    payload: dict[str, Any]

    def scored(self, score: float) -> Hit:
        """The same hit with another score."""
        return Hit(self.id, score, self.cosine, self.payload)


@dataclass(frozen=True, slots=True)
class Page:
    """Records in order of id, and the id of the next page's first (`None` on the last page)."""

    records: list[Record] = field(default_factory=list)
    next_id: str | None = None


@dataclass(frozen=True, slots=True)
class PointPage:
    """Points with their vectors in order of id, and the id of the next page's first."""

    points: list[Point] = field(default_factory=list)
    next_id: str | None = None

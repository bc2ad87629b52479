"""The vector store: points with a dense and a sparse vector and a payload, in collections.

    VectorStore
    ├── EmbeddedStore   qdrant-edge in a folder of this process     embedded.py
    └── ServerStore     a Qdrant server or cluster                  server.py

Both engines return candidates only. They are fused here (fusion.py), so that both give the same
order. `open_store` (loading.py) opens one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry import trace

from .filters import Filter
from .fusion import SPARSE_WEIGHT, fuse, words_scale
from .vectors import DIMENSIONS, QueryVectors, Sparse, Vectors

__all__ = [
    "Candidate",
    "CollectionDamaged",
    "CollectionMissing",
    "FieldType",
    "Hit",
    "Legs",
    "Match",
    "Page",
    "Point",
    "Record",
    "StorageFull",
    "StoreLocked",
    "VectorStore",
]

FieldType = Literal["keyword", "integer", "float", "datetime", "bool"]
CANDIDATES = 100
"""The number of points that each of the two searches contributes to the fusion."""

_tracer = trace.get_tracer("searchbus.vectors")


class CollectionMissing(LookupError):
    """The collection does not exist."""


class CollectionDamaged(RuntimeError):
    """Files of the collection are damaged or missing; the other collections work.

    Attributes:
        collection: its name.
        reason: what is damaged.
    """

    def __init__(self, collection: str, reason: str) -> None:
        super().__init__(f"collection {collection} is damaged: {reason}")
        self.collection = collection
        self.reason = reason


class StorageFull(RuntimeError):
    """There is too little free space to write; reading works."""


class StoreLocked(RuntimeError):
    """Another process has the embedded store open; the message has its pid."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point to store. Without vectors only filters and ids find it."""

    id: str
    payload: dict[str, Any]
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A stored point without its vectors."""

    id: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A point that one of the two searches found, with the score of that search."""

    id: str
    score: float


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


@dataclass(frozen=True, slots=True)
class Match:
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


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result: the fused score (0..1, within one query) and the cosine similarity."""

    id: str
    score: float
    cosine: float
    payload: dict[str, Any]

    def scored(self, score: float) -> Hit:
        """The same hit with another score; `dataclasses.replace` takes ten times as long."""
        return Hit(self.id, score, self.cosine, self.payload)


@dataclass(frozen=True, slots=True)
class Page:
    """Records in order of id, and the id of the next page's first (`None` on the last page)."""

    records: list[Record] = field(default_factory=list)
    next_id: str | None = None


class VectorStore(ABC):
    """The interface of both engines.

    Ids are UUID strings. Every method that takes a collection may raise `CollectionMissing`, except
    `ensure_collection` and `drop_collection`, and `CollectionDamaged`, except `drop_collection`.
    What writes may raise `StorageFull`.
    """

    engine: str

    @property
    def damaged(self) -> Mapping[str, str]:
        """Collection → what is damaged, for those that are set aside or that failed to be read."""
        return {}

    def check_space(self) -> None:
        """Raise StorageFull where the store would refuse to write points."""
        return

    @abstractmethod
    async def ensure_collection(
        self, name: str, fields: Mapping[str, FieldType], *, dimensions: int = DIMENSIONS
    ) -> None:
        """Create the collection and the indexes of its fields, as far as they do not exist.

        Args:
            dimensions: length of the dense vectors of a collection that does not exist.
        """

    @abstractmethod
    async def collections(self) -> list[str]:
        """Names of all collections, sorted."""

    @abstractmethod
    async def drop_collection(self, name: str) -> None:
        """Delete a collection; does nothing if it does not exist."""

    @abstractmethod
    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, replacing those with equal ids; they are durable when it returns."""

    @abstractmethod
    async def set_payload(self, collection: str, where: Filter, payload: dict[str, Any]) -> None:
        """Merge keys into the payload of every point that matches, in one step."""

    @abstractmethod
    async def delete(self, collection: str, where: Filter) -> None:
        """Delete every point that matches."""

    @abstractmethod
    async def get(self, collection: str, ids: Sequence[str]) -> list[Record]:
        """The points with these ids, those that exist, in the order of `ids`."""

    @abstractmethod
    async def scroll(
        self, collection: str, *, where: Filter | None = None, limit: int = 100,
        start_id: str | None = None,
    ) -> Page:  # fmt: skip
        """Points in order of id, from `start_id` on."""

    @abstractmethod
    async def count(self, collection: str, where: Filter | None = None) -> int:
        """The exact number of points that match."""

    @abstractmethod
    async def close(self) -> None:
        """Write everything to disk and release the store."""

    @abstractmethod
    async def _candidates(
        self, collection: str, query: QueryVectors, where: Filter | None, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        """The best points by cosine and the best by BM25."""

    @abstractmethod
    async def _cosines(
        self, collection: str, query: QueryVectors, ids: Sequence[str]
    ) -> dict[str, float]:
        """The cosine similarity of the query to each of these points."""

    @abstractmethod
    async def best_by_word(self, collection: str, words: Sparse) -> list[float]:
        """For each word alone, the best BM25 score that any point has: about twice its idf.

        0 for a word that no point has.
        """

    async def search(
        self, collection: str, query: QueryVectors, *, limit: int, where: Filter | None = None
    ) -> list[Hit]:
        """Hybrid search: candidates by meaning and by words, fused; best first.

        Args:
            where: only points that match.
        """
        wanted = max(CANDIDATES, limit)
        matches = await self.match(collection, query, where=where, candidates=wanted)
        # Only now: a payload costs more to read than a score, and most are not needed.
        records = await self.get(collection, [match.id for match in matches[:limit]])
        payloads = {record.id: record.payload for record in records}
        return [
            Hit(match.id, match.score, match.cosine, payloads[match.id])
            for match in matches
            if match.id in payloads  # else it was deleted meanwhile
        ]

    async def match(
        self,
        collection: str,
        query: QueryVectors,
        *,
        where: Filter | None = None,
        candidates: int = CANDIDATES,
        best: Mapping[int, float] | None = None,
        explain: bool = False,
    ) -> list[Match]:
        """The candidates of a hybrid search without their payloads; best first.

        Args:
            where: only points that match.
            candidates: number of points from each of the two searches.
            best: `best_by_word` of the query's words, where the caller has it.
            explain: whether matches have their `legs`.
        """
        with _tracer.start_as_current_span(
            "store search",
            attributes={"db.system.name": "qdrant", "db.collection.name": collection,
                        "searchbus.engine": self.engine, "searchbus.candidates": candidates},
        ) as span:  # fmt: skip
            dense, sparse = await self._candidates(collection, query, where, candidates)
            cosine = {c.id: c.score for c in dense}
            by_words_only = [c.id for c in sparse if c.id not in cosine]
            if by_words_only:
                cosine |= await self._cosines(collection, query, by_words_only)
            words = {c.id: c.score for c in sparse if c.id in cosine}
            if best is None:
                scores = await self.best_by_word(collection, query.sparse)
                best = dict(zip(query.sparse.indices, scores, strict=True))
            weighted = zip(query.sparse.indices, query.sparse.values, strict=True)
            full = sum(weight * best.get(index, 0.0) for index, weight in weighted)
            most = words_scale(words, full)
            span.set_attribute("searchbus.matches", len(cosine))
            legs = _legs(dense, sparse, most) if explain else {}
            return [
                Match(key, score, cosine[key], words.get(key, 0.0) / most, legs.get(key))
                for key, score in fuse(cosine, words, full=full)
            ]


def _legs(dense: Sequence[Candidate], sparse: Sequence[Candidate], most: float) -> dict[str, Legs]:
    """Id → what each search says of it, for the candidates of both; `most` words count as 1."""
    by_meaning = {c.id: rank for rank, c in enumerate(dense, 1)}
    by_words = {c.id: (rank, c.score) for rank, c in enumerate(sparse, 1)}
    legs = {}
    for key in by_meaning.keys() | by_words.keys():
        rank, bm25 = by_words.get(key, (None, 0.0))
        legs[key] = Legs(by_meaning.get(key), rank, bm25, SPARSE_WEIGHT * bm25 / most)
    return legs

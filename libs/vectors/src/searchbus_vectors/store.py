"""The vector store: collections of points.

    VectorStore
    ├── EmbeddedStore   qdrant-edge in a folder of this process     embedded.py
    └── ServerStore     a Qdrant server or cluster                  server.py

Both engines return candidates only. They are fused here (fusion.py), so that both give the same
order. `open_store` (loading.py) opens one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from opentelemetry import trace

from .filters import Filter
from .fusion import SPARSE_WEIGHT, fuse, words_scale
from .points import Candidate, Hit, Legs, Match, Page, Point, Record
from .vectors import DIMENSIONS, QueryVectors, Sparse

__all__ = [
    "CollectionDamaged",
    "CollectionMissing",
    "FieldType",
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

    @abstractmethod
    async def count_by_word(
        self, collection: str, indices: Sequence[int], *, most: int
    ) -> list[int]:
        """For each word alone, the number of points that have it, or `most` where more have it."""

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

"""The vector store: collections of points, searched by meaning and by words.

    VectorStore
    ├── EmbeddedStore   qdrant-edge in a folder of this process     embedded.py
    └── ServerStore     a Qdrant server or cluster                  server.py

    StoreError
    ├── CollectionMissingError      it does not exist
    ├── CollectionDamagedError      its files are damaged; the other collections work
    ├── StorageFullError            nothing is written; reading works
    ├── StoreLockedError            another process has the folder open
    └── StoreUnavailableError       the server does not answer

Engines return candidates only. They are fused here, so that each engine gives the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from opentelemetry import trace

from .filters import Filter
from .options import StoreOptions
from .points import (
    DIMENSIONS,
    Candidate,
    Legs,
    Match,
    Page,
    Point,
    PointPage,
    QueryVectors,
    Record,
    Sparse,
    records_of,
    vectors_of,
)

SPARSE_WEIGHT = 0.45
_LEAST_OF_FULL = 0.65


def fuse(
    cosine: Mapping[str, float],
    sparse: Mapping[str, float],
    *,
    full: float = 0.0,
) -> list[tuple[str, float]]:
    """Rank candidates by the weighted sum of the two normalised scores.

    Args:
        cosine: id → cosine similarity, for every candidate.
        sparse: id → BM25 score, of the candidates that BM25 found.
        full: BM25 score of a passage that would be the best for each word of the query.

    Returns:
        (id, score in 0..1), best first; equal scores are in order of id.
    """
    most = words_scale(sparse, full)
    scores = {
        key: SPARSE_WEIGHT * (sparse.get(key, 0.0) / most) + (1 - SPARSE_WEIGHT) * value
        for key, value in _min_max(cosine).items()
    }
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


def words_scale(sparse: Mapping[str, float], full: float) -> float:
    """The BM25 score that counts as 1: the best one's, but at least a share of `full`."""
    return max(max(sparse.values(), default=0.0), _LEAST_OF_FULL * full) or 1.0


def _min_max(scores: Mapping[str, float]) -> dict[str, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high - low < 1e-9:
        return dict.fromkeys(scores, 1.0)
    return {key: (value - low) / (high - low) for key, value in scores.items()}


FieldType = Literal["keyword", "integer", "float", "datetime", "bool"]

_tracer = trace.get_tracer("searchbus.vectors")


class StoreError(Exception):
    """A failure of a store that its callers can tell apart."""


class CollectionMissingError(StoreError):
    """The collection does not exist."""


class CollectionDamagedError(StoreError):
    """Files of the collection are damaged or missing; the other collections work.

    Attributes:
        collection: its name.
        reason: what is damaged.
    """

    def __init__(self, collection: str, reason: str) -> None:
        super().__init__(f"collection {collection} is damaged: {reason}")
        self.collection = collection
        self.reason = reason


class StorageFullError(StoreError):
    """There is too little free space to write; reading works."""


class StoreLockedError(StoreError):
    """Another process has the embedded store open; the message has its pid."""


class StoreUnavailableError(StoreError):
    """The server of the store does not answer; the message says what to do.

    Attributes:
        what: the first sentence, which callers may see: the server's address, and what is wrong.
        retryable: whether the same request may succeed later.
    """

    def __init__(self, what: str, remedy: str, *, retryable: bool = True) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.retryable = retryable


class VectorStore(ABC):
    """The interface of both engines.

    Ids are UUID strings. Every method that takes a collection may raise `CollectionMissingError`,
    except `ensure_collection` and `drop_collection`, and `CollectionDamagedError`, except
    `drop_collection`. Writing may raise `StorageFullError`, and everything `StoreUnavailableError`.

    Attributes:
        engine: name for traces.
        system: name of the database for traces (OpenTelemetry's `db.system.name`).
    """

    engine: str
    system: str = "qdrant"

    @classmethod
    @abstractmethod
    async def open(cls, place: str, options: StoreOptions) -> VectorStore:
        """Open the store at a URL or in a folder."""

    async def check(self) -> None:
        """Raise StoreUnavailableError where the store does not answer."""
        await self.collections()

    @property
    def damaged(self) -> Mapping[str, str]:
        """Collection → what is damaged, for those that are set aside or that failed to be read."""
        return {}

    @abstractmethod
    async def ensure_collection(
        self, name: str, fields: Mapping[str, FieldType], *, dimensions: int = DIMENSIONS
    ) -> None:
        """Create the collection (of so many dimensions) and the indexes of its fields, as far as
        they are missing."""

    @abstractmethod
    async def collections(self) -> list[str]:
        """Names of all collections, sorted."""

    @abstractmethod
    async def drop_collection(self, name: str) -> None:
        """Delete a collection; does nothing if it does not exist."""

    @abstractmethod
    async def rename_collection(self, name: str, to: str) -> None:
        """A collection takes the place of another, which is deleted where it exists.

        Every search finds one of the two. Raises CollectionMissingError for `name`.
        """

    @abstractmethod
    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points, replacing those with equal ids; they are durable when it returns."""

    @abstractmethod
    async def set_payload(self, collection: str, where: Filter, payload: dict[str, Any]) -> None:
        """Merge keys into the payload of every point that matches, in one step."""

    @abstractmethod
    async def delete(self, collection: str, where: Filter) -> None:
        """Delete every point that matches."""

    async def get(self, collection: str, ids: Sequence[str]) -> list[Record]:
        """The points with these ids, those that exist, in the order of `ids`."""
        by_id = {record.id: record for record in await self._get(collection, ids)}
        return [by_id[key] for key in ids if key in by_id]

    async def scroll(
        self, collection: str, *, where: Filter | None = None, limit: int = 100,
        start_id: str | None = None,
    ) -> Page:  # fmt: skip
        """Points in order of id, from `start_id` on."""
        records, next_id = await self._scroll(collection, where, limit, start_id, vectors=False)
        return Page(records_of(records), None if next_id is None else str(next_id))

    async def scroll_points(
        self, collection: str, *, where: Filter | None = None, limit: int = 100,
        start_id: str | None = None,
    ) -> PointPage:  # fmt: skip
        """As `scroll`, with vectors, for a copy of the collection."""
        records, next_id = await self._scroll(collection, where, limit, start_id, vectors=True)
        points = [Point(str(r.id), r.payload or {}, vectors_of(r.vector)) for r in records]
        return PointPage(points, None if next_id is None else str(next_id))

    @abstractmethod
    async def _scroll(
        self, collection: str, where: Filter | None, limit: int, start_id: str | None, *,
        vectors: bool,
    ) -> tuple[Sequence[Any], Any]:  # fmt: skip
        """Records in the engine's types, and where the next page starts."""

    @abstractmethod
    async def count(self, collection: str, where: Filter | None = None) -> int:
        """The exact number of points that match."""

    @abstractmethod
    async def close(self) -> None:
        """Write everything to disk and release the store."""

    @abstractmethod
    async def _get(self, collection: str, ids: Sequence[str]) -> list[Record]: ...

    @abstractmethod
    async def _candidates(
        self, collection: str, query: QueryVectors, where: Filter | None, limit: int
    ) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """The best points by cosine and the best by BM25; and those by BM25 alone, by cosine."""

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

    async def match(
        self,
        collection: str,
        query: QueryVectors,
        *,
        where: Filter | None = None,
        candidates: int,
        best: Mapping[int, float],
        explain: bool = False,
    ) -> list[Match]:
        """The candidates of a hybrid search without their payloads; best first.

        Args:
            where: only points that match.
            candidates: number of points from each of the two searches.
            best: `best_by_word` of the query's words.
            explain: whether matches have their `legs`.
        """
        with _tracer.start_as_current_span(
            "store search",
            attributes={"db.system.name": self.system, "db.collection.name": collection,
                        "searchbus.engine": self.engine, "searchbus.candidates": candidates},
        ) as span:  # fmt: skip
            dense, sparse, others = await self._candidates(collection, query, where, candidates)
            cosine = {c.id: c.score for c in (*dense, *others)}
            words = {c.id: c.score for c in sparse if c.id in cosine}
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

"""Points whose vectors are chosen by hand, so that every similarity is known."""

from __future__ import annotations

import uuid

from searchbus_vectors import (
    DIMENSIONS,
    Hit,
    Match,
    Point,
    QueryVectors,
    Sparse,
    Vectors,
    VectorStore,
)

FIELDS = {
    "kind": "keyword",
    "year": "integer",
    "weight": "float",
    "day": "datetime",
    "live": "bool",
}


def uid(number: int) -> str:
    return str(uuid.UUID(int=number))


def direction(*axes: int) -> list[float]:
    return [1.0 if i in axes else 0.0 for i in range(DIMENSIONS)]


def vectors(axis: int, *terms: int) -> Vectors:
    return Vectors(direction(axis), Sparse(list(terms), [1.0] * len(terms)))


def query(axis: int, *terms: int) -> QueryVectors:
    return QueryVectors(direction(axis), Sparse(list(terms), [1.0] * len(terms)))


def point(number: int, **payload) -> Point:
    return Point(uid(number), {"n": number, **payload}, vectors(number, 1000 + number))


async def match(
    store: VectorStore, name: str, wanted: QueryVectors, *, candidates: int = 100, **options
) -> list[Match]:
    scores = await store.best_by_word(name, wanted.sparse)
    best = dict(zip(wanted.sparse.indices, scores, strict=True))
    return await store.match(name, wanted, candidates=candidates, best=best, **options)


async def search(
    store: VectorStore, name: str, wanted: QueryVectors, *, limit: int, where=None
) -> list[Hit]:
    """The best matches with their payloads; not what was deleted meanwhile."""
    found = (await match(store, name, wanted, where=where))[:limit]
    payloads = {r.id: r.payload for r in await store.get(name, [one.id for one in found])}
    return [
        Hit(one.id, one.score, one.cosine, payloads[one.id]) for one in found if one.id in payloads
    ]

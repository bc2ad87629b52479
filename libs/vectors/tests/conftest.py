"""Points whose vectors are chosen by hand, so that every similarity is known."""

from __future__ import annotations

import uuid

from searchbus_vectors import DIMENSIONS, Point, QueryVectors, Sparse, Vectors

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

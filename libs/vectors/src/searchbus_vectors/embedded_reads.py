"""Reads of the embedded engine: nearest by meaning, best by words, ids that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import qdrant_edge as edge

from .embedded_types import DENSE, SPARSE
from .points import Candidate
from .vectors import QueryVectors, Sparse

__all__ = ["by_meaning", "by_words", "ids_of"]


def by_meaning(
    shard: edge.EdgeShard, query: QueryVectors, limit: int, condition: edge.Filter | None,
    among: Sequence[str] | None = None,
) -> list[Candidate]:  # fmt: skip
    """The points nearest to the query, exactly; of those ids, where they are given."""
    must: list[Any] = [condition] if condition is not None else []
    if among is not None:
        must.append(edge.HasIdCondition(set(among)))
    request = edge.QueryRequest(
        limit=limit, query=edge.Query.Nearest(query.dense, using=DENSE),
        filter=edge.Filter(must=must) if must else None, with_payload=False,
        params=edge.SearchParams(exact=True),
    )  # fmt: skip
    return [Candidate(str(p.id), p.score) for p in shard.query(request)]


def by_words(
    shard: edge.EdgeShard, words: Sparse, limit: int, condition: edge.Filter | None
) -> list[Candidate]:
    """The points with the best BM25 score."""
    if not words.indices:  # a query of stopwords alone has no terms
        return []
    terms = edge.SparseVector(words.indices, words.values)
    request = edge.QueryRequest(
        limit=limit, query=edge.Query.Nearest(terms, using=SPARSE), filter=condition,
        with_payload=False,
    )  # fmt: skip
    return [Candidate(str(p.id), p.score) for p in shard.query(request)]


def ids_of(shard: edge.EdgeShard, condition: edge.Filter) -> list[str]:
    """Ids of every point that matches."""
    found: list[str] = []
    start_id: Any = None
    while True:
        request = edge.ScrollRequest(
            offset=start_id, limit=1000, filter=condition, with_payload=False, with_vector=False
        )
        records, start_id = shard.scroll(request)
        found += [str(record.id) for record in records]
        if start_id is None:
            return found

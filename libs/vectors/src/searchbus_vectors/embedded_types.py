"""Points, filters, field types and queries in the types of qdrant-edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import qdrant_edge as edge

from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .points import DENSE, SPARSE, Candidate, Point, QueryVectors, Sparse

INDEX_TYPES = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
    "float": edge.PayloadSchemaType.Float,
    "datetime": edge.PayloadSchemaType.Datetime,
    "bool": edge.PayloadSchemaType.Bool,
}
"""Field type → payload index."""


def to_point(point: Point) -> edge.Point:
    """A point in the engine's types."""
    vector: dict[str, Any] = {}
    if point.vectors is not None:
        vector[DENSE] = point.vectors.dense
        sparse = point.vectors.sparse
        vector[SPARSE] = edge.SparseVector(sparse.indices, sparse.values)
    return edge.Point(point.id, vector, point.payload)


def to_filter(tree: Filter) -> edge.Filter:
    """A filter in the engine's types."""
    match tree:
        case AllOf(parts):
            return edge.Filter(must=[to_filter(part) for part in parts])
        case AnyOf(parts):
            return edge.Filter(should=[to_filter(part) for part in parts])
        case Not(part):
            return edge.Filter(must_not=[to_filter(part)])
        case Equals(field, value):
            # The binding reads Python's True as the integer 1, but numpy's as a boolean.
            exact: Any = np.bool_(value) if isinstance(value, bool) else value
            condition = edge.FieldCondition(field, match=edge.MatchValue(exact))
        case IsIn(field, values):
            any_of = cast(list[str], list(values))
            condition = edge.FieldCondition(field, match=edge.MatchAny(any_of))
        case NumberRange(field, gt, gte, lt, lte):
            condition = edge.FieldCondition(
                field, range=edge.RangeFloat(gt=gt, gte=gte, lt=lt, lte=lte)
            )
        case DateRange(field, gt, gte, lt, lte):
            condition = edge.FieldCondition(
                field, range=edge.RangeDateTime(gt=gt, gte=gte, lt=lt, lte=lte)
            )
    return edge.Filter(must=[condition])


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

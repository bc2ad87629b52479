"""Points, filters and field types in the types of qdrant-edge."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import qdrant_edge as edge

from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .points import Point

__all__ = ["DENSE", "INDEX_TYPES", "SPARSE", "to_filter", "to_point"]

DENSE, SPARSE = "dense", "sparse"
"""Names of a point's two vectors."""
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

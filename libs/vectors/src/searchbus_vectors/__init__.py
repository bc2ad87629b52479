"""Embedding and hybrid search over a Qdrant server or its embedded engine."""

from .embedding import Embedder, QueryVectors, Sparse, Vector, Vectors
from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .models import ModelNotFound, resolve_model
from .store import (
    CollectionMissing,
    FieldType,
    Hit,
    Page,
    Point,
    Record,
    StoreLocked,
    VectorStore,
    open_store,
)

__all__ = [
    "AllOf",
    "AnyOf",
    "CollectionMissing",
    "DateRange",
    "Embedder",
    "Equals",
    "FieldType",
    "Filter",
    "Hit",
    "IsIn",
    "ModelNotFound",
    "Not",
    "NumberRange",
    "Page",
    "Point",
    "QueryVectors",
    "Record",
    "Sparse",
    "StoreLocked",
    "Vector",
    "VectorStore",
    "Vectors",
    "open_store",
    "resolve_model",
]

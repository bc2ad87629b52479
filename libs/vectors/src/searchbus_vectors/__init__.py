"""Embedding and hybrid search over a Qdrant server or its embedded engine."""

from .bm25 import terms
from .embedder import Embedder
from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .loading import EmbedderKind, load_embedder, open_store
from .model_files import MINILM, MODEL_NAME, ModelNotFound, resolve_model
from .models import MULTILINGUAL, model_of
from .points import Hit, Legs, Match, Page, Point, Record
from .query_cache import QueryCache
from .stopwords import STOPWORDS
from .store import (
    CANDIDATES,
    CollectionDamaged,
    CollectionMissing,
    FieldType,
    StorageFull,
    StoreLocked,
    VectorStore,
)
from .vectors import DIMENSIONS, QueryVectors, Sparse, Vector, Vectors

__all__ = [
    "CANDIDATES",
    "DIMENSIONS",
    "MINILM",
    "MODEL_NAME",
    "MULTILINGUAL",
    "STOPWORDS",
    "AllOf",
    "AnyOf",
    "CollectionDamaged",
    "CollectionMissing",
    "DateRange",
    "Embedder",
    "EmbedderKind",
    "Equals",
    "FieldType",
    "Filter",
    "Hit",
    "IsIn",
    "Legs",
    "Match",
    "ModelNotFound",
    "Not",
    "NumberRange",
    "Page",
    "Point",
    "QueryCache",
    "QueryVectors",
    "Record",
    "Sparse",
    "StorageFull",
    "StoreLocked",
    "Vector",
    "VectorStore",
    "Vectors",
    "load_embedder",
    "model_of",
    "open_store",
    "resolve_model",
    "terms",
]

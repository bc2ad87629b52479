"""Embedding and hybrid search over a Qdrant server or its embedded engine."""

from .bm25 import STOPWORDS, different_terms, terms
from .embedder import Embedder, QueryCache
from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .loading import EmbedderKind, load_embedder, open_store
from .models import MINILM, MODEL_NAME, MULTILINGUAL, ModelNotFoundError, model_of, resolve_model
from .options import Layout, StoreOptions
from .points import (
    DIMENSIONS,
    Hit,
    Match,
    Page,
    Point,
    QueryVectors,
    Record,
    Sparse,
    Vector,
    Vectors,
)
from .store import (
    CollectionDamagedError,
    CollectionMissingError,
    FieldType,
    StorageFullError,
    StoreError,
    StoreLockedError,
    StoreUnavailableError,
    VectorStore,
)

__all__ = [
    "DIMENSIONS", "MINILM", "MODEL_NAME", "MULTILINGUAL", "STOPWORDS", "AllOf",
    "AnyOf", "CollectionDamagedError", "CollectionMissingError", "DateRange", "Embedder",
    "EmbedderKind", "Equals", "FieldType", "Filter", "Hit", "IsIn", "Layout", "Match",
    "ModelNotFoundError", "Not", "NumberRange", "Page", "Point", "QueryCache",
    "QueryVectors", "Record", "Sparse", "StorageFullError", "StoreError", "StoreLockedError",
    "StoreOptions", "StoreUnavailableError", "Vector", "VectorStore", "Vectors",
    "different_terms", "load_embedder", "model_of", "open_store", "resolve_model", "terms",
]  # fmt: skip

"""The check that this service adds to `searchbus doctor`."""

from __future__ import annotations

from searchbus_vectors import ModelNotFound, resolve_model

from .settings import RetrievalSettings

__all__ = ["model"]


def model() -> tuple[str, bool, str]:
    """Whether the embedding model is installed."""
    settings = RetrievalSettings()
    if settings.embedder == "hash":
        return "embedding model", True, "not used: SEARCHBUS_EMBEDDER=hash"
    try:
        folder = resolve_model(settings.model_dir, allow_download=settings.model_download)
    except ModelNotFound as error:
        return "embedding model", False, str(error)
    return "embedding model", True, str(folder or "will be downloaded")

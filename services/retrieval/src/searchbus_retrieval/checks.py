"""The check that this service adds to `searchbus doctor`."""

from __future__ import annotations

from pathlib import Path

from searchbus_runtime.settings import read_settings
from searchbus_vectors import ModelNotFoundError, resolve_model

from .settings import RetrievalSettings


def model(folder: Path) -> tuple[str, bool, str]:
    """Whether the embedding model is installed, for the service of a data folder."""
    settings = read_settings(RetrievalSettings, "retrieval", data_dir=folder)
    if settings.embedder == "hash":
        return "embedding model", True, "not used: SEARCHBUS_EMBEDDER=hash"
    try:
        found = resolve_model(settings.model_dir, allow_download=settings.model_download)
    except ModelNotFoundError as error:
        return "embedding model", False, str(error)
    return "embedding model", True, str(found or "will be downloaded")

"""The checks that this service adds to `searchbus doctor`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from searchbus_runtime.settings import read_settings
from searchbus_vectors import ModelNotFoundError, StoreError, open_store, resolve_model

from .settings import RetrievalSettings


def model(folder: Path) -> tuple[str, bool, str]:
    """Whether the embedding model is installed, for the service of a data folder."""
    settings = read_settings(RetrievalSettings, "retrieval", data_dir=folder)
    if settings.embedder == "hash":
        return "embedding model", True, "not used: embedder = hash"
    try:
        found = resolve_model(settings.model_dir, allow_download=settings.model_download)
    except ModelNotFoundError as error:
        return "embedding model", False, str(error)
    return "embedding model", True, str(found or "will be downloaded")


def store(folder: Path) -> tuple[str, bool, str]:
    """Whether the Qdrant server answers, where there is one."""
    settings = read_settings(RetrievalSettings, "retrieval", data_dir=folder)
    if settings.qdrant_url is None:
        return "document store", True, f"in {settings.store_folder}"
    try:
        asyncio.run(_open(settings))
    except StoreError as error:
        return "document store", False, str(error)
    return "document store", True, "the Qdrant server answers"


async def _open(settings: RetrievalSettings) -> None:
    await (await open_store(**settings.server)).close()

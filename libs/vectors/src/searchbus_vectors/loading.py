"""Makes the embedder and the store that the settings name; each imports only what it needs."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Literal

from .embedder import Embedder
from .models import MODEL_NAME
from .options import StoreOptions
from .store import VectorStore

EmbedderKind = Literal["model", "hash"]
"""`model`: bge-small-en-v1.5. `hash`: hashed words, for tests and trials."""


async def load_embedder(
    kind: EmbedderKind = "model",
    *,
    model: str = MODEL_NAME,
    folder: Path | None = None,
    allow_download: bool = False,
    document_threads: int | None = None,
    query_threads: int | None = None,
) -> Embedder:
    """Load an embedder; the other arguments concern the model only.

    Args:
        model: its name, see `model_of`.
        folder: model folder, see `resolve_model`.
        allow_download: whether the hub may be used when no wheel is installed.
        document_threads: threads for documents; `None` means one per core.
        query_threads: how many queries may be embedded at the same time; `None` means one per core.

    Raises:
        ModelNotFoundError: with what to do.
    """
    if kind == "hash":
        from .hash_embedder import HashEmbedder

        return HashEmbedder()
    from .model_embedder import ModelEmbedder

    return await asyncio.to_thread(
        ModelEmbedder.load,
        folder,
        name=model,
        allow_download=allow_download,
        document_threads=document_threads,
        query_threads=query_threads,
    )


ENGINES = {
    "folder": "searchbus_vectors.embedded:EmbeddedStore",
    "http": "searchbus_vectors.server:ServerStore",
    "https": "searchbus_vectors.server:ServerStore",
}
"""Scheme of a URL → its engine. Another one is a module with a VectorStore, and a line here."""


async def open_store(
    *,
    url: str | None = None,
    folder: Path | None = None,
    options: StoreOptions = StoreOptions(),
) -> VectorStore:
    """Open a server by URL (":memory:" in tests), or the embedded engine in a folder.

    Raises:
        StoreLockedError: another process has the folder open.
        StoreUnavailableError: the server does not respond.
        ValueError: neither a URL nor a folder is given, or no engine has the URL's scheme.
    """
    if not url and folder is None:
        raise ValueError("open_store needs a url or a folder")
    scheme = "folder"
    if url:  # host:port and :memory: have no scheme
        scheme = url.partition("://")[0].lower() if "://" in url else "http"
    if scheme not in ENGINES:
        known = ", ".join(ENGINES)
        raise ValueError(f"no vector store has URLs such as {scheme}://host; known: {known}")
    module, _, name = ENGINES[scheme].partition(":")
    engine: type[VectorStore] = getattr(import_module(module), name)
    return await engine.open(url or str(folder), options)

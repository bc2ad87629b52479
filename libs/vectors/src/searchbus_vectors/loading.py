"""Makes the embedder and the store that the settings name; each imports only what it needs.

embedder = await load_embedder("model")                            # bge-small-en-v1.5
embedder = await load_embedder(model="thenlper/gte-base")          # another model of fastembed
embedder = await load_embedder("hash")                             # for tests: no model
store = await open_store(folder=Path("data/qdrant"))               # embedded
store = await open_store(url="http://qdrant:6333")                 # a server or cluster
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from .embedder import Embedder
from .model_files import MODEL_NAME
from .store import VectorStore

__all__ = ["EmbedderKind", "load_embedder", "open_store"]

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
        ModelNotFound: with what to do.
    """
    if kind == "hash":
        from .hash_embedder import HashEmbedder

        return HashEmbedder()
    from .model_embedder import ModelEmbedder

    return await ModelEmbedder.load(
        folder,
        name=model,
        allow_download=allow_download,
        document_threads=document_threads,
        query_threads=query_threads,
    )


async def open_store(
    *,
    url: str | None = None,
    folder: Path | None = None,
    api_key: str | None = None,
    min_free_bytes: int = 0,
) -> VectorStore:
    """Open a Qdrant server by URL (":memory:" in tests), or the embedded engine in a folder.

    Args:
        min_free_bytes: of the folder's disk; the embedded engine writes nothing below that.

    Raises:
        StoreLocked: another process has the folder open.
        ConnectionError: the server does not respond.
        ValueError: neither a URL nor a folder is given.
    """
    if url:
        from .server import ServerStore

        return await ServerStore.open(url, api_key=api_key)
    if folder is None:
        raise ValueError("open_store needs a url or a folder")
    from .embedded import EmbeddedStore

    return await asyncio.to_thread(EmbeddedStore, folder, min_free_bytes=min_free_bytes)

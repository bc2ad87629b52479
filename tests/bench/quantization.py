"""What quantized vectors on a Qdrant server cost in quality: nDCG@10 of Cranfield and of the FOMC
documents with float32, int8 and one bit, over the same vectors and with an index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from qdrant_client import models as q

from searchbus_retrieval.library import Library
from searchbus_vectors import Embedder, Layout, StoreOptions, VectorStore, open_store

from ..integration.qdrant import QdrantServer, qdrant_binary
from . import cranfield, fomc
from .library import opened, store_text
from .metrics import ndcg
from .progress import progress

_LAYOUTS = {
    "float32": Layout(quantization="none"),
    "int8": Layout(quantization="scalar"),
    "one bit": Layout(quantization="binary"),
}
_FOMC = ("", "_by_kind", "_held_out", "_third")
Asked = Sequence[tuple[str, Collection[str]]]


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Embed once, copy the points into a server under each layout, ask the same questions."""
    if qdrant_binary() is None:
        progress("quantization: skipped, there is no qdrant program")
        return {}
    asked: dict[str, Asked] = {
        "cranfield": cranfield.asked(reference),
        "fomc": [pair for name in _FOMC for pair in fomc.asked(f"fomc_questions{name}.jsonl")],
    }
    server = QdrantServer(workdir / "qdrant")
    server.start()
    try:
        async with opened(workdir / "quantization") as (library, source, embedder):
            await fomc.fill(library, reference)
            for key, (title, text) in cranfield.documents(reference).items():
                await store_text(library, "cranfield", key, title, text)
            found: dict[str, dict[str, float]] = {name: {} for name in asked}
            for layout, options in _LAYOUTS.items():
                wanted = StoreOptions(layouts={"*": options})
                store = await open_store(url=server.url, options=wanted)
                for name, pairs in asked.items():
                    await _copy(source, store, name)
                    found[name][layout] = await _measure(store, embedder, name, pairs)
                    progress(f"quantization: {name}, {layout}: {found[name][layout]:.4f}")
                    await store.drop_collection(name)
                await store.close()
    finally:
        server.kill()
    return {
        f"{name} {layout}": round(value, 4)
        for name, values in found.items()
        for layout, value in values.items()
    } | {
        f"{name}: lost by {layout}": round(values["float32"] - values[layout], 4)
        for name, values in found.items()
        for layout in ("int8", "one bit")
    }


async def _copy(source: VectorStore, store: Any, name: str) -> None:
    await store.ensure_collection(name, {"live": "bool", "document_id": "keyword"})
    # Far fewer vectors than the server would index by itself.
    await store._client.update_collection(
        name, optimizers_config=q.OptimizersConfigDiff(indexing_threshold=1)
    )
    start_id: str | None = None
    while True:
        page = await source.scroll_points(name, limit=250, start_id=start_id)
        await store.upsert(name, page.points)
        start_id = page.next_id
        if start_id is None:
            break
    while True:
        info = await store._client.get_collection(name)
        if info.status == q.CollectionStatus.GREEN and info.indexed_vectors_count:
            return
        await asyncio.sleep(0.5)


async def _measure(store: VectorStore, embedder: Embedder, name: str, asked: Asked) -> float:
    library = await Library.open(store, embedder, repair=False)
    scores = []
    for question, gold in asked:
        hits = await library.search(name, question, limit=10, per_document=True)
        scores.append(ndcg([hit.document_id for hit in hits], gold))
    return mean(scores)

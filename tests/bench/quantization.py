"""What quantized vectors on a Qdrant server cost in quality: nDCG@10 of Cranfield and of the FOMC
documents with float32, int8 and one bit, over the same vectors and with an index.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from qdrant_client import models as q

from searchbus_contracts.ingest import NewDocument, document_id
from searchbus_ingest.sources.item import cut
from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_retrieval.library import Library
from searchbus_vectors import Embedder, Layout, StoreOptions, VectorStore, load_embedder, open_store

from ..integration.qdrant import QdrantServer, qdrant_binary
from .fomc import questions
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
    server = QdrantServer(workdir / "qdrant")
    server.start()
    embedder = await load_embedder()
    source = await open_store(folder=workdir / "quantization")
    try:
        library = await Library.open(source, embedder)
        asked = {
            "cranfield": await _cranfield(library, reference / "data" / "docs" / "cranfield"),
            "fomc": await _fomc(library, reference / "data" / "fomc" / "docs.jsonl"),
        }
        found: dict[str, dict[str, float]] = {name: {} for name in asked}
        for layout, options in _LAYOUTS.items():
            store = await open_store(url=server.url, options=StoreOptions(layouts={"*": options}))
            for name, pairs in asked.items():
                await _copy(source, store, name)
                found[name][layout] = await _measure(store, embedder, name, pairs)
                progress(f"quantization: {name}, {layout}: {found[name][layout]:.4f}")
                await store.drop_collection(name)
            await store.close()
    finally:
        await source.close()
        await embedder.close()
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


async def _cranfield(library: Library, folder: Path) -> Asked:
    for line in (folder / "corpus.jsonl").open():
        item = json.loads(line)
        if item["text"].strip():
            chunks = tuple(cut(item["text"], markdown=False))
            title = item["title"] or item["_id"]
            document = NewDocument(
                document_id=item["_id"], title=title, text=item["text"], chunks=chunks
            )
            await library.store("cranfield", document)
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, key, _ = line.split("\t")
        relevant.setdefault(query, set()).add(key)
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open()]
    return [(one["text"], relevant[one["_id"]]) for one in queries if one["_id"] in relevant]


async def _fomc(library: Library, path: Path) -> Asked:
    for item in read_jsonl(path, "fomc"):
        assert item.document is not None
        await library.store("fomc", item.document)
    return [
        (one["question"], {document_id("fomc", key) for key in one["documents"]})
        for name in _FOMC
        for one in questions(f"fomc_questions{name}.jsonl")
    ]


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

"""Hybrid search on the Cranfield collection: nDCG@10, with BM25 and dense alone beside it."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_vectors import Point, load_embedder, open_store

from .metrics import ndcg, recall

__all__ = ["run"]


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Index 1,400 abstracts in an embedded store and ask the 225 questions."""
    folder = reference / "data" / "docs" / "cranfield"
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").open()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open()]
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        relevant.setdefault(query, set()).add(document)
    embedder = await load_embedder()
    store = await open_store(folder=workdir / "cranfield")
    try:
        await store.ensure_collection("cranfield", {})
        started_s = time.perf_counter()
        for start in range(0, len(documents), 256):
            batch = documents[start : start + 256]
            vectors = await embedder.embed_documents([f"{d['title']} {d['text']}" for d in batch])
            await store.upsert(
                "cranfield",
                [
                    Point(str(uuid.UUID(int=int(d["_id"]))), {"id": d["_id"]}, v)
                    for d, v in zip(batch, vectors, strict=True)
                ],
            )
        seconds = time.perf_counter() - started_s
        scores: dict[str, list[float]] = {"hybrid": [], "bm25": [], "dense": [], "recall": []}
        for query in queries:
            gold = relevant.get(query["_id"], set())
            if not gold:
                continue
            vectors = await embedder.embed_query(query["text"])
            hits = [h.payload["id"] for h in await store.search("cranfield", vectors, limit=10)]
            dense, sparse = await store._candidates("cranfield", vectors, None, 10)
            scores["hybrid"].append(ndcg(hits, gold))
            scores["recall"].append(recall(hits, gold, 10))
            scores["dense"].append(ndcg([str(uuid.UUID(c.id).int) for c in dense], gold))
            scores["bm25"].append(ndcg([str(uuid.UUID(c.id).int) for c in sparse], gold))
    finally:
        await store.close()
        await embedder.close()
    return {
        "queries": len(scores["hybrid"]),
        "ndcg@10": round(mean(scores["hybrid"]), 4),
        "recall@10": round(mean(scores["recall"]), 4),
        "ndcg@10 bm25 alone": round(mean(scores["bm25"]), 4),
        "ndcg@10 dense alone": round(mean(scores["dense"]), 4),
        "documents/s": round(len(documents) / seconds, 1),
    }

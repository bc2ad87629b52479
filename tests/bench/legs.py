"""Hybrid search beside each of its two legs alone, in an embedded store: nDCG@10."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_vectors import Point, load_embedder, open_store

from .metrics import ndcg, recall

__all__ = ["compare"]

_BATCH = 256


async def compare(
    folder: Path, documents: Mapping[str, str], asked: Sequence[tuple[str, Collection[str]]]
) -> dict[str, Any]:
    """Index each document as one passage and ask every question.

    Args:
        folder: of the store that is made.
        documents: key → text.
        asked: question, and the keys of the documents that answer it.
    """
    keys = list(documents)
    ids = {str(uuid.UUID(int=number)): key for number, key in enumerate(keys, 1)}
    points = list(ids.items())
    embedder = await load_embedder()
    store = await open_store(folder=folder)
    try:
        await store.ensure_collection("documents", {})
        started_s = time.perf_counter()
        for start in range(0, len(points), _BATCH):
            batch = points[start : start + _BATCH]
            vectors = await embedder.embed_documents([documents[key] for _, key in batch])
            await store.upsert(
                "documents",
                [
                    Point(point_id, {"key": key}, vector)
                    for (point_id, key), vector in zip(batch, vectors, strict=True)
                ],
            )
        seconds = time.perf_counter() - started_s
        scores: dict[str, list[float]] = {"fused": [], "bm25": [], "dense": [], "recall": []}
        for question, gold in asked:
            query = await embedder.embed_query(question)
            matches = await store.match("documents", query)
            found = [ids[match.id] for match in matches]
            dense, sparse = await store._candidates("documents", query, None, 10)
            scores["fused"].append(ndcg(found, gold))
            scores["recall"].append(recall(found, gold, 10))
            scores["dense"].append(ndcg([ids[c.id] for c in dense], gold))
            scores["bm25"].append(ndcg([ids[c.id] for c in sparse], gold))
    finally:
        await store.close()
        await embedder.close()
    means = {name: mean(values) for name, values in scores.items()}
    return {
        "documents": len(documents),
        "queries": len(asked),
        "ndcg@10": round(means["fused"], 4),
        "recall@10": round(means["recall"], 4),
        "ndcg@10 bm25 alone": round(means["bm25"], 4),
        "ndcg@10 dense alone": round(means["dense"], 4),
        "above the better leg": round(means["fused"] - max(means["bm25"], means["dense"]), 4),
        "documents/s": round(len(documents) / seconds, 1),
    }

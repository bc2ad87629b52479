"""What the service answers, beside each of its two searches alone: nDCG@10.

The documents are ingested and asked as the service does both: cut into passages, embedded with their
titles, ranked by document. The legs are the best documents by the cosine and by BM25 of their passages.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_retrieval.documents.records import is_live

from .library import opened, store_text
from .metrics import ndcg, recall

_COLLECTION = "documents"
_PASSAGES = 60
"""Of each leg: the best of ten documents or more."""


async def compare(
    folder: Path,
    documents: Mapping[str, tuple[str, str]],
    asked: Sequence[tuple[str, Collection[str]]],
) -> dict[str, Any]:
    """Ingest the documents and ask every question.

    Args:
        folder: of the store that is made.
        documents: key → title and text.
        asked: question, and the keys of the documents that answer it.
    """
    async with opened(folder) as (library, store, embedder):
        started_s = time.perf_counter()
        passages = 0
        for key, (title, text) in documents.items():
            passages += (await store_text(library, _COLLECTION, key, title, text)).chunks
        seconds = time.perf_counter() - started_s
        scores: dict[str, list[float]] = {"served": [], "bm25": [], "dense": [], "recall": []}
        for question, gold in asked:
            hits = await library.search(_COLLECTION, question, limit=10, per_document=True)
            found = [hit.document_id for hit in hits]
            scores["served"].append(ndcg(found, gold))
            scores["recall"].append(recall(found, gold, 10))
            query = await embedder.embed_query(question)
            dense, bm25, _ = await store._candidates(_COLLECTION, query, is_live, _PASSAGES)
            for name, candidates in (("dense", dense), ("bm25", bm25)):
                records = await store.get(_COLLECTION, [c.id for c in candidates])
                keys = list(dict.fromkeys(r.payload["document_id"] for r in records))
                scores[name].append(ndcg(keys, gold))
    means = {name: mean(values) for name, values in scores.items()}
    return {
        "documents": len(documents),
        "passages": passages,
        "queries": len(asked),
        "ndcg@10": round(means["served"], 4),
        "recall@10": round(means["recall"], 4),
        "ndcg@10 bm25 alone": round(means["bm25"], 4),
        "ndcg@10 dense alone": round(means["dense"], 4),
        "above the better leg": round(means["served"] - max(means["bm25"], means["dense"]), 4),
        "documents/s": round(len(documents) / seconds, 1),
    }

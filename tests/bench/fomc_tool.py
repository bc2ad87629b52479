"""Questions to the tool search_fomc through its service: what a caller gets in five results.

    python -m tests.bench.fomc_tool QUESTIONS.jsonl FOLDER

Each line has `question`, `documents` (ids of those that answer it), and may have `kind` and `answer`
(strings, any of which answers it). FOLDER is that of an embedded store with the ingested corpus, as
`python -m tests.bench fomc` leaves it. Every question is asked over the bus, so that the tool's own
limits count; the first passage is read as the caller reads it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from msgspec import Raw

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, ToolCall, ToolReply, encode
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.library import Library
from searchbus_retrieval.service import build_worker
from searchbus_retrieval.tools import COLLECTION
from searchbus_vectors import load_embedder, open_store

from .metrics import success

__all__ = ["ask_tool", "measured"]

TOP_K = 5


async def ask_tool(library: Library, asked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask the tool every question; one row for each, with what was found."""
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(library))
    bus = broker.connect()
    rows = []
    for question in asked:
        arguments = {"query": question["question"], "top_k": TOP_K}
        started_s = time.process_time()
        reply = await bus.request(
            bus.subjects.tool("fomc", "search_fomc"),
            ToolCall(tool="search_fomc", arguments=Raw(encode(arguments))), ToolReply,
            service="retrieval", timeout_s=60, actor=Actor(subject="bench"),
        )  # fmt: skip
        cpu_s = time.process_time() - started_s
        results = (reply.structured or {})["results"]
        gold = {document_id(COLLECTION, key) for key in question["documents"]}
        ranked = list(dict.fromkeys(result["document_id"] for result in results))
        first = _plain(results[0]["chunk_text"]) if results else ""
        answers = [_plain(answer) for answer in question.get("answer") or ()]
        rows.append(
            {
                "question": question["question"],
                "kind": question.get("kind", ""),
                "R@1": success(ranked, gold, 1),
                "any@5": success(ranked, gold, TOP_K),
                "answer": float(any(answer in first for answer in answers)) if answers else None,
                "cpu_ms": 1000 * cpu_s,
                "found": [f"{r['document_name']}: {r['chunk_text'][:80]}" for r in results],
            }
        )
    return rows


def measured(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The means over all rows and over each kind."""
    kinds: dict[str, list[dict[str, Any]]] = {"all": list(rows)}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    return {kind: {"questions": len(own)} | _means(own) for kind, own in kinds.items() if kind}


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    means = {}
    for name in ("R@1", "any@5", "answer", "cpu_ms"):
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            means[name] = round(mean(values), 3)
    return means


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


async def _run(questions: Path, folder: Path, show: bool) -> None:
    embedder = await load_embedder()
    store = await open_store(folder=folder)
    try:
        library = await Library.open(store, embedder)
        asked = [json.loads(line) for line in questions.read_text().splitlines() if line.strip()]
        await library.search(COLLECTION, "to load the model", limit=1)
        rows = await ask_tool(library, asked)
    finally:
        await store.close()
        await embedder.close()
    for kind, means in measured(rows).items():
        print(kind, json.dumps(means))
    for row in rows if show else ():
        if not row["R@1"] or row["answer"] == 0.0:
            print(json.dumps(row, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="the questions that are not answered")
    given = parser.parse_args()
    asyncio.run(_run(given.questions, given.folder, given.show))

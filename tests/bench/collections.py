"""Known items over several collections at once, against the best search of one collection.

Cranfield, the FOMC documents and searchbus's own documentation in one library: what `search` of the
connector asks of the documents, and the same questions straight to the collection that has the answer.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_contracts.ingest import NewDocument, document_id
from searchbus_ingest.sources.item import cut
from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_retrieval.library import Library
from searchbus_vectors import load_embedder, open_store

from .fomc import questions

ROOT = Path(__file__).parents[2]
DOCS_QUESTIONS = {
    "how is a request cancelled on the bus": "proto/README.md",
    "which header carries the time that is left": "proto/README.md",
    "how do I connect Claude Desktop": "examples/README.md",
    "how to add a tool to a service": "CONTRIBUTING.md",
    "how many seconds between two searches of an egress address": "services/ddg/README.md",
    "what happens to a worker whose address is refused": "services/ddg/README.md",
    "which statuses can an extracted page have": "services/web/README.md",
    "how is the Tavily limit shared over replicas": "services/web/README.md",
    "how are typos in a tool search handled": "services/toolindex/README.md",
    "in-memory twin of NATS": "libs/bus/README.md",
    "order in which a process drains": "libs/runtime/README.md",
    "embedded engine instead of a Qdrant server": "libs/vectors/README.md",
}
CRANFIELD_QUESTIONS = 100


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """R@5 of both, over all questions and by collection."""
    embedder = await load_embedder()
    store = await open_store(folder=workdir / "fomc")  # what the bench of that name filled
    try:
        library = await Library.open(store, embedder)
        asked = await _fill(library, reference)
        single: dict[str, list[float]] = {}
        together: dict[str, list[float]] = {}
        for collection, question, gold in asked:
            hits = await library.search(collection, question, limit=5, per_document=True)
            single.setdefault(collection, []).append(_found(collection, hits, gold))
            reply = await library.search_all((), question, limit=10, per_document=True)
            together.setdefault(collection, []).append(_found(collection, reply.hits[:5], gold))
    finally:
        await store.close()
        await embedder.close()
    every = {name: [v for rows in table.values() for v in rows]
             for name, table in (("one", single), ("all", together))}  # fmt: skip
    return {
        "questions": len(asked),
        "R@5 one collection": round(mean(every["one"]), 4),
        "R@5 all collections": round(mean(every["all"]), 4),
        "lost by searching all": round(mean(every["one"]) - mean(every["all"]), 4),
        **{f"R@5 {name}: one, all": [round(mean(single[name]), 3), round(mean(together[name]), 3)]
           for name in single},
    }  # fmt: skip


def _found(collection: str, hits: Any, gold: set[str]) -> float:
    return float(any(h.collection == collection and h.document_id in gold for h in hits))


async def _fill(library: Library, reference: Path) -> list[tuple[str, str, set[str]]]:
    asked: list[tuple[str, str, set[str]]] = []
    if await library.count_documents("fomc") == 0:
        for item in read_jsonl(reference / "data" / "fomc" / "docs.jsonl", "fomc"):
            assert item.document is not None
            await library.store("fomc", item.document, {})
    asked += [
        ("fomc", q["question"], {document_id("fomc", key) for key in q["documents"]})
        for q in questions()
    ]
    folder = reference / "data" / "docs" / "cranfield"
    if await library.count_documents("cranfield") == 0:
        for line in (folder / "corpus.jsonl").open():
            raw = json.loads(line)
            await _store(library, "cranfield", raw["_id"], raw["title"] or raw["_id"], raw["text"])
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        relevant.setdefault(query, set()).add(document)
    for line in list((folder / "queries.jsonl").open())[:CRANFIELD_QUESTIONS]:
        raw = json.loads(line)
        if relevant.get(raw["_id"]):
            asked.append(("cranfield", raw["text"], relevant[raw["_id"]]))
    tracked = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in tracked:
        await _store(library, "project", name, name, (ROOT / name).read_text())
    return asked + [("project", question, {name}) for question, name in DOCS_QUESTIONS.items()]


async def _store(library: Library, collection: str, key: str, title: str, text: str) -> None:
    if text.strip():
        chunks = tuple(cut(text, markdown=key.endswith(".md")))
        document = NewDocument(document_id=key, title=title[:1000], text=text, chunks=chunks)
        await library.store(collection, document, {})

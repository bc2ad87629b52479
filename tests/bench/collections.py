"""Known items over several collections at once, against the best search of one collection.

Cranfield, the FOMC documents and searchbus's own documentation in one library: what `search` of the
connector asks of the documents, and the same questions straight to the collection that has the answer.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_retrieval.library import Library

from . import cranfield, fomc
from .library import opened, store_text

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
    async with opened(workdir / "fomc") as (library, _, _):  # what that bench filled
        asked = await _fill(library, reference)
        single: dict[str, list[float]] = {}
        together: dict[str, list[float]] = {}
        for collection, question, gold in asked:
            hits = await library.search(collection, question, limit=5, per_document=True)
            single.setdefault(collection, []).append(_found(collection, hits, gold))
            reply = await library.search_all((), question, limit=10, per_document=True)
            together.setdefault(collection, []).append(_found(collection, reply.hits[:5], gold))
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
    if await library.count_documents("fomc") == 0:
        await fomc.fill(library, reference)
    if await library.count_documents("cranfield") == 0:
        for key, (title, text) in cranfield.documents(reference).items():
            await store_text(library, "cranfield", key, title, text)
    tracked = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    for name in tracked:
        if (text := (ROOT / name).read_text()).strip():
            await store_text(library, "project", name, name, text)
    return [
        *(("fomc", question, gold) for question, gold in fomc.asked()),
        *(("cranfield", *pair) for pair in cranfield.asked(reference)[:CRANFIELD_QUESTIONS]),
        *(("project", question, {name}) for question, name in DOCS_QUESTIONS.items()),
    ]

"""Questions on the 523 FOMC documents: the right document first, or among five.

Four sets: questions of every sort, for which statement and minutes of a meeting may both be right;
sixty by kind, for which the right one of the two is wanted: the statement says what was decided, the
minutes who argued what; forty-two by kind that were written before the ranking knew of units,
directions, rare names and repeated announcements; and forty that were written before it knew of
synonyms, of which every second one was first asked when it did.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from statistics import mean
from typing import Any

from searchbus_contracts.ingest import IngestResult, document_id
from searchbus_ingest.sources.jsonl import read_jsonl
from searchbus_retrieval.library import Library
from searchbus_retrieval.tools import COLLECTION, search_corpus

from .library import opened
from .metrics import success


def questions(name: str = "fomc_questions.jsonl") -> list[dict[str, Any]]:
    """The lines of one file: question, source ids of the documents that answer it, perhaps a kind."""
    path = Path(__file__).with_name(name)
    return [json.loads(line) for line in path.read_text().splitlines()]


def asked(name: str = "fomc_questions.jsonl") -> list[tuple[str, set[str]]]:
    """The questions of one file, each with the ids of the documents that answer it."""
    return [
        (q["question"], {document_id(COLLECTION, key) for key in q["documents"]})
        for q in questions(name)
    ]


async def fill(library: Library, reference: Path) -> list[IngestResult]:
    """Store the documents."""
    found = []
    for item in read_jsonl(reference / "data" / "fomc" / "docs.jsonl", COLLECTION):
        assert item.document is not None, item
        found.append(await library.store(COLLECTION, item.document))
    return found


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Ingest everything into an embedded store and ask."""
    async with opened(workdir / "fomc") as (library, _, _):
        started_s = time.perf_counter()
        stored = await fill(library, reference)
        seconds = time.perf_counter() - started_s
        measured = await ask(library)
    documents, chunks = len(stored), sum(result.chunks for result in stored)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        **measured,
        "documents": documents,
        "chunks": chunks,
        "documents/s": round(documents / seconds, 2),
        "chunks/s": round(chunks / seconds, 1),
        "peak RSS MiB": round(peak_mib),
    }


async def ask(library: Library) -> dict[str, Any]:
    """Recall at 1 and 5 over each set, over each half of the first, and over each kind."""
    rows, missed = await _ask(library, "fomc_questions.jsonl")
    return {
        "questions": len(rows),
        **_recalls(rows),
        "R@1 halves": [round(mean(r[0] for r in rows[i::2]), 4) for i in (0, 1)],
        "R@5 halves": [round(mean(r[1] for r in rows[i::2]), 4) for i in (0, 1)],
        "first answer wrong": missed,
        "by kind": await _ask_by_kind(library, "fomc_questions_by_kind.jsonl"),
        "by kind, held out": await _ask_by_kind(library, "fomc_questions_held_out.jsonl"),
        "by kind, third": await _ask_by_kind(library, "fomc_questions_third.jsonl"),
    }


async def _ask_by_kind(library: Library, name: str) -> dict[str, Any]:
    rows, missed = await _ask(library, name)
    of_kind: dict[str, list[tuple[float, float]]] = {}
    for row, question in zip(rows, questions(name), strict=True):
        of_kind.setdefault(question["kind"], []).append(row)
    return {
        "questions": len(rows),
        **_recalls(rows),
        **{kind: _recalls(found) for kind, found in of_kind.items()},
        "first answer wrong": missed,
    }


async def _ask(library: Library, name: str) -> tuple[list[tuple[float, float]], list[str]]:
    rows: list[tuple[float, float]] = []
    missed = []
    for number, (question, gold) in enumerate(asked(name)):
        hits = (await search_corpus(library, question, 40, None)).hits
        ranked = list(dict.fromkeys(hit.document_id for hit in hits))
        rows.append((success(ranked, gold, 1), success(ranked, gold, 5)))
        if not rows[-1][0]:
            names = list(dict.fromkeys(hit.title for hit in hits))[:3]
            missed.append(f"{number}: {question} -> {names}")
    return rows, missed


def _recalls(rows: list[tuple[float, float]]) -> dict[str, float]:
    return {"R@1": round(mean(r[0] for r in rows), 4), "R@5": round(mean(r[1] for r in rows), 4)}

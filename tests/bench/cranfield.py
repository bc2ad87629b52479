"""What the service finds in the Cranfield collection: nDCG@10, with BM25 and dense alone beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .legs import compare


def documents(reference: Path) -> dict[str, tuple[str, str]]:
    """Key → title, or the key where there is none, and text; 1,398 abstracts that are not empty."""
    rows = map(json.loads, (_folder(reference) / "corpus.jsonl").open())
    return {d["_id"]: (d["title"] or d["_id"], d["text"]) for d in rows if d["text"].strip()}


def asked(reference: Path) -> list[tuple[str, set[str]]]:
    """The 225 questions, each with the keys of the documents that answer it."""
    relevant: dict[str, set[str]] = {}
    for line in (_folder(reference) / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        relevant.setdefault(query, set()).add(document)
    rows = map(json.loads, (_folder(reference) / "queries.jsonl").open())
    return [(q["text"], relevant[q["_id"]]) for q in rows if q["_id"] in relevant]


def _folder(reference: Path) -> Path:
    return reference / "data" / "docs" / "cranfield"


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Ingest the abstracts and ask the questions."""
    return await compare(workdir / "cranfield", documents(reference), asked(reference))

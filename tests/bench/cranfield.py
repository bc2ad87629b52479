"""What the service finds in the Cranfield collection: nDCG@10, with BM25 and dense alone beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .legs import compare


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Ingest 1,400 abstracts and ask the 225 questions."""
    folder = reference / "data" / "docs" / "cranfield"
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").open()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open()]
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        relevant.setdefault(query, set()).add(document)
    return await compare(
        workdir / "cranfield",
        {d["_id"]: (d["title"], d["text"]) for d in documents if d["text"].strip()},
        [(q["text"], relevant[q["_id"]]) for q in queries if q["_id"] in relevant],
    )

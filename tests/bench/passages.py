"""Search over 100,000 passages of real text against 1,000.

The text is what every checkout has: the reference documents, then the sources of the installed packages
and of Python. The vectors are hashed words, so that no hour goes by with embedding; so the times hold
everything but the model, whose time for one query is measured beside them. Both collections are in one
store, asked in turn. The store is kept in build/passages for the next run.
"""

from __future__ import annotations

import json
import statistics
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from searchbus_contracts.ingest import Chunk, NewDocument
from searchbus_retrieval.library import Library
from searchbus_vectors import load_embedder

from .library import opened

STORE = Path(__file__).parents[2] / "build" / "passages"
SIZES = {"small": 1_000, "large": 100_000}
PASSAGE_CHARS, DOCUMENT_CHARS = 900, 60_000
ROUNDS = 8
QUESTIONS = (
    "why did the committee raise the federal funds rate",
    "labor market conditions and inflation expectations",
    "balance sheet reduction of treasury securities",
    "parse a date string into a datetime object",
    "thread pool executor shutdown waits for running tasks",
    "open a socket connection with a timeout",
    "json encoder for custom types",
    "read a csv file into rows",
    "compute the determinant of a matrix",
    "convert unicode to punycode domain",
)


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p50 of a search in both collections, and their ratio."""
    model = await load_embedder()
    async with opened(STORE, await load_embedder("hash")) as (library, _, _):
        for name, size in SIZES.items():
            await _fill(library, name, size, reference)
        found: dict[str, Any] = {
            "passages": {c.name: c.chunks for c in await library.list_collections()}
        }
        times = await _times(library)
    model_s = []
    for question in QUESTIONS * 3:
        started_s = time.perf_counter()
        await model.embed_query(question)
        model_s.append(time.perf_counter() - started_s)
    await model.close()
    one_query_s = statistics.median(model_s)
    whole = {name: value + one_query_s for name, value in times.items()}
    return found | {
        **{f"{name} p50 ms": round(value * 1e3, 2) for name, value in times.items()},
        "model, one query p50 ms": round(one_query_s * 1e3, 2),
        "100,000 / 1,000, without the model": round(times["large"] / times["small"], 2),
        "100,000 / 1,000, with the model's time": round(whole["large"] / whole["small"], 2),
    }


async def _times(library: Library) -> dict[str, float]:
    """Collection → p50 in seconds; each question is new to the query cache in each round."""
    times: dict[str, list[float]] = {name: [] for name in SIZES}
    for number in range(ROUNDS + 1):
        for question in QUESTIONS:
            for name, values in times.items():
                started_s = time.perf_counter()
                hits = await library.search(name, f"{question} {number}", limit=5)
                if number:  # the first round warms up
                    values.append(time.perf_counter() - started_s)
                assert hits
    return {name: statistics.median(values) for name, values in times.items()}


async def _fill(library: Library, name: str, size: int, reference: Path) -> None:
    if await library.count_documents(name):
        return
    passages = 0
    for number, (title, text) in enumerate(_texts(reference)):
        chunks = _cut(text)[: size - passages]
        document = NewDocument(
            document_id=str(number), title=title[:1000], text=text, chunks=chunks
        )
        passages += (await library.store(name, document)).chunks
        if passages >= size:
            return


def _texts(reference: Path) -> Iterator[tuple[str, str]]:
    for line in (reference / "data" / "fomc" / "docs.jsonl").open():
        raw = json.loads(line)
        yield raw.get("title") or "FOMC", raw["text"]
    for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")):
        for path in sorted(Path(folder).rglob("*.py")):
            text = path.read_text(errors="replace")[:DOCUMENT_CHARS]
            if len(text) > PASSAGE_CHARS:
                yield path.name, text


def _cut(text: str) -> tuple[Chunk, ...]:
    """Passages of whole lines."""
    chunks, start = [], 0
    while start < len(text):
        end = start + PASSAGE_CHARS
        line_end = text.rfind("\n", start + PASSAGE_CHARS // 2, end)
        end = min(len(text), end if line_end == -1 else line_end)
        if text[start:end].strip():
            chunks.append(Chunk(start=start, end=end))
        start = end
    return tuple(chunks)

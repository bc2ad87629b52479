"""Measures how well queries find their tools in a catalogue (`searchbus tools bench`).

A catalogue is a folder with `tools.jsonl` ({id, name, description, inputSchema?, server?,
examples?, keywords?}) and `queries.jsonl` ({id, text, relevant: [tool ids]}), one object a line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any

import msgspec

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindRequest
from searchbus_toolindex.embedding import Embeds
from searchbus_toolindex.entries import IndexEntry, tool_text
from searchbus_toolindex.finder import IndexFinder
from searchbus_toolindex.index import Index
from searchbus_vectors import Vector

__all__ = ["CatalogueError", "entry_of", "evaluate", "read_catalogue"]

_EVERYBODY = Actor(roles=("*",))
_DEPTH = 10
_BATCH = 64


class CatalogueError(ValueError):
    """A file is missing or has a faulty line; the message names it."""


class ToolLine(msgspec.Struct, rename="camel"):
    """One line of tools.jsonl."""

    id: str
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    server: str | None = None
    examples: list[str] = []
    keywords: list[str] = []


class QueryLine(msgspec.Struct):
    """One line of queries.jsonl; `irrelevant` is judged as wrong: a line with nothing else is left
    out."""

    text: str
    relevant: list[str]
    id: str = ""
    irrelevant: list[str] = []


@dataclass
class Report:
    """Means over the queries; times in milliseconds, of one query at a time."""

    tools: int
    queries: int
    measures: dict[str, float] = field(default_factory=dict)


def read_catalogue(
    path: Path, queries: Path | None = None
) -> tuple[list[ToolLine], list[QueryLine]]:
    """Read a folder, or a tools file with its queries beside it.

    Raises:
        CatalogueError: a file is missing or has a faulty line.
    """
    tools_file = path / "tools.jsonl" if path.is_dir() else path
    queries_file = queries or tools_file.with_name("queries.jsonl")
    tools: list[ToolLine] = _lines(tools_file, ToolLine)
    cases: list[QueryLine] = _lines(queries_file, QueryLine)
    cases = [case for case in cases if case.relevant or not case.irrelevant]
    known = {tool.id for tool in tools}
    if len(known) < len(tools):
        raise CatalogueError(f"{tools_file}: ids must be unique.")
    for number, query in enumerate(cases, 1):
        unknown = [key for key in query.relevant if key not in known]
        if unknown or not query.relevant:
            what = f"unknown tool {unknown[0]!r}" if unknown else "no relevant tool"
            raise CatalogueError(f"{queries_file}:{number}: {what}.")
    if not (tools and cases):
        raise CatalogueError(f"{path}: there are {len(tools)} tools and {len(cases)} queries.")
    return tools, cases


def _lines(path: Path, kind: Any) -> list[Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path} cannot be read: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(msgspec.json.decode(line, type=kind))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise CatalogueError(f"{path}:{number}: {error}") from None
    return found


async def evaluate(
    tools: Sequence[ToolLine],
    queries: Sequence[QueryLine],
    embedder: Embeds,
    *,
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Report:
    """Index the tools as the service does and run the queries; `on_progress` gets the stage, how
    much of it is done, and of how much."""
    entries = [entry_of(tool) for tool in tools]
    texts = list(dict.fromkeys(text for entry in entries for text in entry.embedded))
    vectors: dict[str, Vector] = {}
    for start in range(0, len(texts), _BATCH):
        on_progress("embedding", start, len(texts))
        batch = texts[start : start + _BATCH]
        made = await embedder.embed_short(batch, urgent=False)
        vectors |= zip(batch, made, strict=True)
    index = Index(embedder.model)
    index.replace("bench", entries, lambda entry: [vectors[text] for text in entry.embedded])
    finder = IndexFinder(index, embedder)
    ranked: list[list[str]] = []
    times_s = []
    for number, query in enumerate(queries):
        on_progress("searching", number, len(queries))
        started_s = time.perf_counter()
        # The service refuses a longer one; a client shortens it.
        text = query.text[:MAX_FIND_CHARS]
        reply = await finder.find(FindRequest(query=text, limit=_DEPTH), _EVERYBODY)
        times_s.append(time.perf_counter() - started_s)
        ranked.append([found.name for found in reply.found])
    return Report(len(tools), len(queries), _measures(ranked, queries, times_s))


def entry_of(tool: ToolLine) -> IndexEntry:
    """What is indexed of a tool."""
    # The id replaces the name: two servers may have tools of the same name.
    return IndexEntry(
        kind="tool",
        toolset=tool.server or "",
        name=tool.id,
        names=(tool.name,),
        text=tool_text(
            tool.server or "", tool.name, None, tool.description or "", tool.input_schema or {}
        ),
        examples=tuple(tool.examples),
        keywords=tuple(tool.keywords),
    )


def _measures(
    ranked: Sequence[Sequence[str]], queries: Sequence[QueryLine], times_s: Sequence[float]
) -> dict[str, float]:
    pairs = [(found, set(query.relevant)) for found, query in zip(ranked, queries, strict=True)]
    measures = {
        f"recall@{k}": mean(len(set(found[:k]) & gold) / len(gold) for found, gold in pairs)
        for k in (1, 5, 10)
    }
    measures["ndcg@10"] = mean(_ndcg(found, gold) for found, gold in pairs)
    measures["empty answers"] = float(sum(not found for found, _ in pairs))
    measures["p50 ms"] = median(times_s) * 1000
    measures["p99 ms"] = 1000 * (quantiles(times_s, n=100)[98] if times_s[1:] else times_s[0])
    return {name: round(value, 4) for name, value in measures.items()}


def _ndcg(found: Sequence[str], gold: set[str]) -> float:
    gain = sum(1 / math.log2(i + 2) for i, key in enumerate(found[:_DEPTH]) if key in gold)
    return gain / sum(1 / math.log2(i + 2) for i in range(min(_DEPTH, len(gold))))

"""How well tools are found in every set: `python -m tests.search.measure`.

For each catalogue: rank of the right tools, how many are returned, answerable queries without a result,
nonsense with an empty result.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindRequest
from searchbus_toolindex.embedding import load_tool_embedder
from searchbus_toolindex.finder import IndexFinder

from ..bench.metrics import ndcg, recall
from .sets import (
    EVERY_ROLE,
    NEWER,
    NONSENSE,
    SHIPPED,
    Case,
    finder_of,
    held_out,
    newer,
    nonsense,
    read_sets,
    shipped_cases,
)

_DEPTH = 10


@dataclass(frozen=True)
class Result:
    """The names of the first ten matches of a query.

    Args:
        first_page: of these, those before the scores fall off; tools/search returns them first.
    """

    names: tuple[str, ...]
    first_page: tuple[str, ...]


async def results(
    finder: IndexFinder, cases: Sequence[Case], *, with_toolset: bool = False
) -> list[Result]:
    """The results of each query."""
    found = []
    for case in cases:
        reply = await finder.find(
            FindRequest(query=case.query[:MAX_FIND_CHARS], limit=_DEPTH), EVERY_ROLE
        )
        names = tuple(f"{f.toolset}.{f.name}" if with_toolset else f.name for f in reply.found)
        found.append(Result(names, names[: reply.first_page]))
    return found


def quality(cases: Sequence[Case], found: Sequence[Result]) -> dict[str, float]:
    """Means over queries that the catalogue serves."""
    pairs = list(zip(found, (case.right for case in cases), strict=True))
    measured = {f"recall@{k}": mean(recall(f.names, r, k) for f, r in pairs) for k in (1, 5, 10)}
    measured["ndcg@10"] = mean(ndcg(f.names, r) for f, r in pairs)
    measured["returned"] = mean(len(f.names) for f, _ in pairs)
    measured["on the first page"] = mean(len(f.first_page) for f, _ in pairs)
    measured["recall@5 of the first page"] = mean(recall(f.first_page, r, 5) for f, r in pairs)
    measured["ndcg@10 of the first page"] = mean(ndcg(f.first_page, r) for f, r in pairs)
    measured["wrongly empty"] = mean(not f.names for f, _ in pairs)
    return {name: round(value, 4) for name, value in measured.items()}


_LEVELS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


async def curves(finder: IndexFinder, cases: Sequence[Case]) -> dict[str, float]:
    """The share of the queries whose result would be empty, by least probability."""
    best = []
    for case in cases:
        query = case.query[:MAX_FIND_CHARS]
        reply = await finder.find(FindRequest(query=query, explain=True), EVERY_ROLE)
        entries = reply.explanation.considered if reply.explanation else ()
        best.append(entries[0].probability if entries else 0.0)
    return {f"{level:g}": round(mean(p < level for p in best), 3) for level in _LEVELS}


def shipped_quality(cases: Sequence[Case], found: Sequence[Result]) -> dict[str, float]:
    """Of the shipped tools: right first, mean number returned, empty where no tool serves."""
    pairs = list(zip(found, (case.right for case in cases), strict=True))
    served = [(f, r) for f, r in pairs if r]
    return {
        "right first": sum(f.names[0] in r for f, r in served if f.names),
        "returned": round(mean(len(f.names) for f, _ in served), 2),
        "on the first page": round(mean(len(f.first_page) for f, _ in served), 2),
        "empty": sum(not f.names for f, r in pairs if not r),
    }


async def measure(reference: Path) -> dict[str, dict[str, float]]:
    """By set."""
    embedder = await load_tool_embedder(query_threads=2)
    measured: dict[str, dict[str, float]] = {}
    try:
        for tools in (*read_sets(reference), held_out()):
            finder = await finder_of(tools.entries, embedder)
            if tools.name == "shipped":
                for name in SHIPPED:
                    cases = shipped_cases(name)
                    found = await results(finder, cases, with_toolset=True)
                    measured[name] = shipped_quality(cases, found)
                measured[tools.name] = {}
                every, cases = await finder_of(newer().entries, embedder), shipped_cases(NEWER)
                measured[NEWER] = shipped_quality(
                    cases, await results(every, cases, with_toolset=True)
                )
            else:
                served = [case for case in tools.cases if case.right]
                measured[tools.name] = quality(served, await results(finder, served))
            right = [case for case in tools.cases if case.right]
            strange_cases = [case for name in NONSENSE for case in nonsense(name)]
            for name, cases in (("served", right), ("nonsense", strange_cases)):
                measured[f"{tools.name}: {name}, empty by least probability"] = await curves(
                    finder, cases
                )
            strange = {name: nonsense(name) for name in NONSENSE}
            if tools.name == "servers":
                strange["others"] = [case for case in tools.cases if not case.right]
            for name, cases in strange.items():
                found = await results(finder, cases)
                measured[tools.name][f"{name} empty"] = sum(not result.names for result in found)
    finally:
        await embedder.close()
    return measured


def _table(measured: Mapping[str, Mapping[str, float]]) -> str:
    return "".join(
        f"{name:26}" + "  ".join(f"{key} {value:g}" for key, value in values.items()) + "\n"
        for name, values in measured.items()
    )


if __name__ == "__main__":
    sys.stdout.write(_table(asyncio.run(measure(Path(__file__).parents[3] / "shared"))))

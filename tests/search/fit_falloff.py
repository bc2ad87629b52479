"""Fits how the probability falls along a ranking: `python -m tests.search.fit_falloff`.

Prints, for all sets and with each left out, how much the logarithm of the odds falls with the distance to
the best score and with the logarithm of the rank (`_SLOPE` and `_RANK_WEIGHT` of the gate). The gate takes a
lower weight of the rank, so that more is left for later pages. Needs ../shared.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindRequest
from searchbus_toolindex.embedding import load_tool_embedder
from searchbus_toolindex.finder import IndexFinder

from .fit_gate import REFERENCE, logistic
from .sets import EVERY_ROLE, Case, finder_of, read_sets

_DEPTH = 10


@dataclass(frozen=True)
class Place:
    """One of the first ten entries of a ranking.

    Args:
        behind: distance to the best score, 0 or less.
        rank: from 1.
    """

    group: str
    behind: float
    rank: int
    right: bool


def fit(places: Sequence[Place]) -> tuple[float, float]:
    """By how much the odds' logarithm falls per distance and per logarithm of the rank."""
    sizes = {group: sum(p.group == group for p in places) for group in {p.group for p in places}}
    weight = np.array([1 / sizes[place.group] for place in places])
    rows = np.array([[place.behind, math.log(place.rank)] for place in places])
    right = np.array([place.right for place in places], dtype=float)
    found = logistic(rows, right, weight / weight.sum())
    return float(found[0]), -float(found[1])


async def places_of(group: str, cases: Sequence[Case], finder: IndexFinder) -> list[Place]:
    """The first ten entries of each query that the catalogue serves, without literal matches."""
    places = []
    for case in cases:
        query = case.query[:MAX_FIND_CHARS]
        explanation = (
            await finder.find(FindRequest(query=query, explain=True), EVERY_ROLE)
        ).explanation
        entries = [e for e in explanation.considered if not e.literal] if explanation else []
        for rank, entry in enumerate(entries[:_DEPTH] if case.right else [], 1):
            right = bool({entry.name, f"{entry.toolset}.{entry.name}"} & case.right)
            places.append(Place(group, entry.score - entries[0].score, rank, right))
    return places


async def main() -> None:
    """Print the fits."""
    embedder = await load_tool_embedder()
    places = []
    for tools in read_sets(REFERENCE):
        finder = await finder_of(tools.entries, embedder)
        places += await places_of(tools.name, tools.cases, finder)
    await embedder.close()
    for left_out in (None, *dict.fromkeys(place.group for place in places)):
        slope, rank_weight = fit([place for place in places if place.group != left_out])
        title = f"{left_out} left out" if left_out else "all"
        sys.stdout.write(f"{title:26} slope {slope:.2f}  rank weight {rank_weight:.2f}\n")


if __name__ == "__main__":
    asyncio.run(main())

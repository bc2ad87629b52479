"""Fits the gate of the tool index and makes the vectors of its cohort: `python -m tests.search.fit_gate`.

Writes cohort.npz and gate.json of the tool index, and prints how often the gate errs on each set when
it was fitted on the others. Needs ../shared; the cohort's texts are in cohort.tsv.

Fitted on: the public sets, requests as people say them for one of these, the office and two of the three sets of the shipped tools, each against
queries of no tool; and parts of each catalogue, against queries whose tools are in another part, since
a catalogue has ten tools or ten thousand.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from searchbus_toolindex import cohort as cohorts
from searchbus_toolindex import scoring as gates
from searchbus_toolindex.embedding import Embeds, load_tool_embedder
from searchbus_toolindex.finder import IndexFinder
from searchbus_toolindex.index import Index, Scope
from searchbus_toolindex.query import is_searchable
from searchbus_toolindex.scoring import FEATURES, Facet, Gate

from .cohort_texts import CohortTexts, load_texts
from .sets import (
    EVERY_ROLE,
    SHIPPED,
    Case,
    ToolSet,
    finder_of,
    nonsense,
    read_sets,
    shipped_cases,
    spoken,
)

REFERENCE = Path(__file__).parents[3] / "shared"
PACKAGE = Path(str(files("searchbus_toolindex")))
PARTS = 40
"""Parts of each catalogue."""
_EACH = 6
"""Queries of each sort for each part."""
_MAX_CHARS = 2000
_ROUNDS = 5
_RIDGE = 1e-4
_CANDIDATES = 3
WEIGHTS = {
    "queries": 3.0,
    "spoken": 3.0,
    "foreign": 7.0,
    "nonsense": 3.0,
    "part": 1.0,
    "part, nonsense": 1.0,
    "part, other": 0.3,
}
"""Of the sorts of examples. A query of another part is often served all the same; the foreign ones of
the shipped tools are the only ones of which it is certain that they are not."""


@dataclass(frozen=True)
class Example:
    """A query of a set: features by text and candidate, shape (candidates, features)."""

    group: str
    sort: str
    served: bool
    query: str
    candidates: NDArray[np.float64]


def fit(examples: Sequence[Example]) -> Gate:
    """A logistic model of the best candidate of each query; every group, sort and label counts alike."""
    sizes = Counter((e.group, e.sort, e.served) for e in examples)
    weight = np.array([WEIGHTS[e.sort] / sizes[e.group, e.sort, e.served] for e in examples])
    weight /= weight.sum()
    served = np.array([e.served for e in examples], dtype=float)
    # Which entry is the best depends on the weights; the nearest one is a good guess.
    chosen = [int(np.argmax(e.candidates[:, :2].sum(axis=1))) for e in examples]
    for _ in range(_ROUNDS):
        rows = np.stack([e.candidates[at] for e, at in zip(examples, chosen, strict=True)])
        found = logistic(rows, served, weight)
        chosen = [int(np.argmax(e.candidates @ found[:-1])) for e in examples]
    rounded = [round(float(value), 3) for value in found]
    return Gate(weights=tuple(rounded[:-1]), intercept=rounded[-1])


def logistic(
    rows: NDArray[np.float64], served: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights and intercept by Newton's method, on features of unit variance, with a small ridge."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    columns = np.c_[(rows - mean) / spread, np.ones(len(rows))]
    ridge = _RIDGE * np.eye(columns.shape[1])
    ridge[-1, -1] = 0.0
    found = np.zeros(columns.shape[1])
    for _ in range(30):
        probability = 1 / (1 + np.exp(-columns @ found))
        gradient = columns.T @ (weight * (probability - served)) + ridge @ found
        curvature = (columns.T * (weight * probability * (1 - probability))) @ columns + ridge
        found -= np.linalg.solve(curvature, gradient)
    weights = found[:-1] / spread
    return np.append(weights, found[-1] - weights @ mean)


def logit(gate: Gate, example: Example) -> float:
    """The logarithm of the odds that the catalogue serves the query."""
    return float((example.candidates @ np.array(gate.weights)).max() + gate.intercept)


async def examples_of(tools: ToolSet, finder: IndexFinder) -> list[Example]:
    """Examples of a set: its queries, nonsense, and those of parts of its catalogue."""
    scope = finder.index.scope(EVERY_ROLE, "tool")
    sorts: list[tuple[str, bool, Case, Scope]] = []
    if tools.name == "shipped":
        cases = [case for name in SHIPPED[:2] for case in shipped_cases(name)]
    else:
        cases = list(tools.cases)
    sorts += [
        ("queries" if case.right else "foreign", bool(case.right), case, scope) for case in cases
    ]
    if tools.name == "livemcpbench":
        sorts += [("spoken", True, case, scope) for case in spoken()]
    sorts += [("nonsense", False, case, scope) for case in nonsense("fit_nonsense")]
    if tools.name != "shipped":
        sorts += _parts(tools, finder)
    return [
        Example(tools.name, sort, served, case.query, await _candidates(finder, case.query, part))
        for sort, served, case, part in sorts
        if is_searchable(case.query)
    ]


def _parts(tools: ToolSet, finder: IndexFinder) -> Iterator[tuple[str, bool, Case, Scope]]:
    dice = random.Random(5)
    toolset_of = {entry.name: entry.toolset for entry in tools.entries}
    toolsets = sorted(set(toolset_of.values()))
    needs = {case: {toolset_of[name] for name in case.right} for case in tools.cases}
    strange = nonsense("fit_nonsense")
    for number in range(PARTS):
        size = max(3, len(toolsets) // 2 ** (1 + number % 5))
        part = {*dice.sample(toolsets, size), *needs[dice.choice(tools.cases)]}
        scope = finder.index.scope(EVERY_ROLE, "tool", sorted(part))
        own = [case for case in tools.cases if needs[case] <= part]
        other = [case for case in tools.cases if not needs[case] & part]
        for sort, served, cases in (
            ("part", True, own), ("part, other", False, other), ("part, nonsense", False, strange),
        ):  # fmt: skip
            for case in dice.sample(cases, min(_EACH, len(cases))):
                yield sort, served, case, scope


async def _candidates(finder: IndexFinder, query: str, scope: Scope) -> NDArray[np.float64]:
    parsed, facets = await finder.facets(query[:_MAX_CHARS].strip(), scope)
    rows = [
        _rows(finder.index, facet, scope)
        for text, facet in zip(parsed.texts, facets, strict=True)
        if parsed.is_evidence(text)
    ]
    return np.concatenate(rows)


def _rows(index: Index, facet: Facet, scope: Scope) -> NDArray[np.float64]:
    """The features of the entries that are nearest to a text in meaning, or in words."""
    visible = np.flatnonzero(scope.lengths.visible)
    cosine, coverage = facet.cosine[visible], facet.matches.coverage[visible]
    best = np.unique(np.r_[np.argsort(-cosine)[:_CANDIDATES],
                           np.argsort(-(cosine + 0.1 * coverage))[:_CANDIDATES]])  # fmt: skip
    agreement = index.vectors.agreement(visible[best], facet.text.nearness.expected)
    return gates.features(cosine[best], coverage[best], agreement, facet.text)


async def main() -> None:
    """Write both files; print the errors."""
    sets = read_sets(REFERENCE)
    texts = load_texts()
    arrays: dict[str, NDArray[np.float16]] = {}
    fitted: dict[str, Gate] = {}
    embedders = [
        await load_tool_embedder(),
        await load_tool_embedder(second=False),
        await load_tool_embedder("hash"),
    ]
    for embedder in embedders:
        arrays |= await _cohort(texts, embedder)
    np.savez_compressed(PACKAGE / cohorts.FILE, **arrays)
    for embedder in embedders:
        _add_empty_gate(embedder.model)
        examples = []
        for tools in sets:
            finder = await finder_of(tools.entries, embedder)
            examples += await examples_of(tools, finder)
        await embedder.close()
        fitted[embedder.model] = fit(examples)
        _report(f"{embedder.model}, fitted on all", fitted[embedder.model], examples)
        for tools in sets:
            others = fit([e for e in examples if e.group != tools.name])
            _report(
                f"{tools.name} left out", others, [e for e in examples if e.group == tools.name]
            )
    (PACKAGE / "gate.json").write_bytes(msgspec.json.format(msgspec.json.encode(fitted)) + b"\n")


async def _cohort(texts: CohortTexts, embedder: Embeds) -> dict[str, NDArray[np.float16]]:
    asked = [embedder.query_prefix + text for text in texts.requests]
    requests = np.stack(await embedder.embed_short(asked, urgent=False))
    tools = np.stack(await embedder.embed_short(texts.tools, urgent=False))
    others = np.stack(await embedder.embed_short(texts.others, urgent=False))
    found = {"requests": requests, "tools": tools, "others": others}
    return {f"{embedder.model}/{name}": a.astype(np.float16) for name, a in found.items()}


def _add_empty_gate(model: str) -> None:
    """An index cannot be made without a gate, not even to fit one."""
    path = PACKAGE / "gate.json"
    found = msgspec.json.decode(path.read_bytes(), type=dict[str, Gate]) if path.exists() else {}
    found.setdefault(model, Gate((0.0,) * len(FEATURES), 0.0))
    path.write_bytes(msgspec.json.encode(found))
    gates.load_gate.cache_clear()


def _report(title: str, gate: Gate, examples: Sequence[Example]) -> None:
    sys.stdout.write(f"{title}: {dict(zip(FEATURES, gate.weights, strict=True))}\n")
    least = np.log(gates.LEAST / (1 - gates.LEAST))
    for key in dict.fromkeys((e.group, e.sort, e.served) for e in examples):
        found = [logit(gate, e) for e in examples if (e.group, e.sort, e.served) == key]
        empty = sum(value < least for value in found)
        shares = np.round(np.percentile(found, (2, 10, 50, 90, 98)), 1)
        kind = "served" if key[2] else "not served"
        sys.stdout.write(
            f"  {key[0]:16} {key[1]:16} {kind:11} empty {empty:3} of {len(found):3}"
            f"  logits at 2, 10, 50, 90, 98 %: {shares.tolist()}\n"
        )


if __name__ == "__main__":
    asyncio.run(main())

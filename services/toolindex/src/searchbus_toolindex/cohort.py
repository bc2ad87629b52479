"""Fixed texts that every query and every entry is compared with, whatever the catalogue.

A cosine means little by itself. It is high between any two short texts of everyday words, and some
entries ("hubs") are near to whatever is asked. These comparisons make it comparable, as the cohorts
of speaker recognition do (adaptive score normalisation); README.md says what is compared.

cohort.tsv has the texts, cohort.npz their vectors, which `python -m tests.search.fit_gate` makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from searchbus_vectors import Vector

from .lexicon import Floats

HUB_WEIGHT = 1.0
_NEAREST_OTHERS = 5
_NEAREST_REQUESTS = 3
_REQUESTS_SPAN = 0.05
"""The tool of a request whose cosine is this much lower counts 1/e as much."""
FILE = "cohort.npz"


@dataclass(frozen=True, slots=True)
class Nearness:
    """What the cohort says of a query.

    Args:
        tools: the cosine with the nearest tool.
        others: the mean cosine with the five nearest other texts.
        requests: the mean cosine with the three nearest requests.
        expected: the weighted mean of the tools of the three nearest requests: the kind of tool
            that is wanted.
    """

    tools: float
    others: float
    requests: float
    expected: Vector


class Cohort:
    """Unit vectors of the texts (texts, dimensions), by one model; tools[i] serves requests[i]."""

    def __init__(self, requests: Floats, tools: Floats, others: Floats) -> None:
        mean = requests.astype(np.float32).mean(axis=0)
        self.penalty: Vector = (HUB_WEIGHT * mean).astype(np.float32)
        self.vectors = np.concatenate([requests, tools, others]).astype(np.float32)
        self._penalties = self.vectors @ self.penalty
        self._tools = self.vectors[len(requests) : 2 * len(requests)]

    def nearness(self, query: Vector) -> Nearness:
        """Compare a query; cosines are less the penalty, as those of entries."""
        # Rows are in one order in all replicas, which get the same bits from BLAS.
        cosines = self.vectors @ query - self._penalties
        number = len(self._tools)
        requests, tools, others = (
            cosines[:number],
            cosines[number : 2 * number],
            cosines[2 * number :],
        )
        nearest = np.argsort(-requests, kind="stable")[:_NEAREST_REQUESTS]
        weights = np.exp((requests[nearest] - requests[nearest[0]]) / _REQUESTS_SPAN)
        expected = (weights / weights.sum()) @ self._tools[nearest]
        return Nearness(
            tools=float(tools.max()),
            others=float(np.sort(others)[-_NEAREST_OTHERS:].mean()),
            requests=float(requests[nearest].mean()),
            expected=expected.astype(np.float32),
        )


@cache
def load_cohort(model: str) -> Cohort:
    """The cohort of a model; raises ValueError, which says how its vectors are made."""
    with np.load(str(files(__package__).joinpath(FILE))) as arrays:
        if f"{model}/tools" not in arrays:
            raise ValueError(
                f"The tool index has no cohort for the model {model!r}. "
                "Add the model to tests/search/fit_gate.py and run it."
            )
        return Cohort(*(arrays[f"{model}/{name}"] for name in ("requests", "tools", "others")))

"""The probability that an entry serves a query, by a logistic model of a few features.

The features of a text of the query and an entry:

- how much nearer the entry is than the nearest tool of the cohort, and than its other texts;
- the share of the text's words found, weighted by their rarity;
- how many words it has, how many of them are corrections, and how many entries are visible: the
  best of many has a higher cosine by chance.

The weights, in gate.json, are fitted by `python -m tests.search.fit_gate`, on as many queries that
the catalogue serves as others: the probabilities are those of such a mix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
from numpy.typing import NDArray

from .cohort import Nearness
from .lexicon import Floats

__all__ = ["FEATURES", "LEAST", "Circumstances", "Gate", "features", "load_gate"]

FEATURES = ("tools_margin", "others_margin", "coverage", "terms", "corrected", "entries")
LEAST = 0.25
"""The probability that an entry must have to be returned."""
_SHORT = 6
"""Terms of a request for one thing. A longer one asks for several, and each tool scores below the
best for the parts that it does not serve."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What all entries have in common that are compared with one text of a query.

    Args:
        terms: number of different terms of the text.
        corrected: share of its words that are corrections, 0 to 1.
        entries: number of visible ones.
    """

    nearness: Nearness
    terms: int
    corrected: float
    entries: int


class Gate(msgspec.Struct, frozen=True):
    """The fitted model.

    Args:
        weights: of `FEATURES`.
        slope: how fast the probability falls with the distance to the best score.
    """

    weights: tuple[float, ...]
    intercept: float
    slope: float

    def logits(self, cosines: Floats, coverage: Floats, found: Circumstances) -> Floats:
        """By entry, the logarithm of the odds that it serves the text."""
        logits: Floats = features(cosines, coverage, found) @ np.array(self.weights)
        return logits + self.intercept

    def probabilities(self, odds: float, terms: int, behind: Floats) -> Floats:
        """By entry, the probability that it serves the query.

        Args:
            odds: their logarithm, of the entry with the most evidence.
            terms: of the whole query.
            behind: how far the entry's score is from the highest, 0 or less; more than 0 for a
                literal match.
        """
        logits = odds + self.slope * min(1.0, _SHORT / max(1, terms)) * behind
        # Beyond 50 the probability is 1, and exp would overflow.
        found: Floats = np.round(1 / (1 + np.exp(-np.clip(logits, -50, 50))), 4).astype(np.float32)
        return found


def features(cosines: Floats, coverage: Floats, found: Circumstances) -> NDArray[np.float64]:
    """Shape (entries, features)."""
    columns = np.empty((len(cosines), len(FEATURES)))
    columns[:, 0] = cosines - found.nearness.tools
    columns[:, 1] = cosines - found.nearness.others
    columns[:, 2] = coverage
    columns[:, 3] = np.log(max(1, found.terms))
    columns[:, 4] = found.corrected
    columns[:, 5] = np.log(found.entries + 8)
    return columns


@cache
def load_gate(model: str) -> Gate:
    """The gate of a model.

    Raises:
        ValueError: none is fitted for this model; the message says how.
    """
    text = files(__package__).joinpath("gate.json").read_bytes()
    gates = msgspec.json.decode(text, type=dict[str, Gate])
    if model not in gates:
        raise ValueError(
            f"The tool index has no gate for the model {model!r}. "
            "Add the model to tests/search/fit_gate.py and run it."
        )
    return gates[model]

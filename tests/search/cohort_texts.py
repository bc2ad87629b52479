"""The texts that the cohort of the tool index has the vectors of."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class CohortTexts:
    """The texts: requests, the tools that would serve them, and others that no tool serves."""

    requests: tuple[str, ...]
    tools: tuple[str, ...]
    others: tuple[str, ...]


def load_texts() -> CohortTexts:
    """The texts of cohort.tsv."""
    table = files("searchbus_toolindex").joinpath("cohort.tsv").read_text(encoding="utf-8")
    lines = [line for line in table.splitlines() if not line.startswith("#")]
    pairs = [line.split("\t") for line in lines if "\t" in line]
    return CohortTexts(
        requests=tuple(request for request, _ in pairs),
        tools=tuple(tool for _, tool in pairs),
        others=tuple(line for line in lines if "\t" not in line),
    )

"""What a row measures, its gate, and the table of all rows.

at_most("1", "failed calls", 3, 0)
at_least("6", "goodput", 0.93, 0.9, unit="of capacity")
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value and its gate.

    Args:
        row: number of the scorecard, or a word for what it has no number for.
        limit: the gate; the value must not be above it, or with `least` not below it.
        note: why there is no value; such a measurement neither passes nor misses.
        runs: the values that `value` is the median of.
    """

    row: str
    name: str
    value: float
    limit: float
    unit: str = ""
    least: bool = False
    note: str = ""
    runs: tuple[float, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the gate is met; also where nothing could be measured."""
        if self.note:
            return True
        return self.value >= self.limit if self.least else self.value <= self.limit

    @property
    def outcome(self) -> str:
        """pass, MISS, or why it was left out."""
        return self.note or ("pass" if self.passed else "MISS")


def at_most(row: str, name: str, value: float, limit: float, unit: str = "") -> Measurement:
    """A value that must not be above its limit."""
    return Measurement(row, name, value, limit, unit)


def at_least(row: str, name: str, value: float, limit: float, unit: str = "") -> Measurement:
    """A value that must not be below its limit."""
    return Measurement(row, name, value, limit, unit, least=True)


def left_out(row: str, name: str, why: str) -> Measurement:
    """A measurement that this machine cannot make."""
    return Measurement(row, name, 0, 0, note=f"left out: {why}")


def median(runs: Sequence[Sequence[Measurement]]) -> list[Measurement]:
    """One list of several runs of the same rows: each with the median of its values."""
    found: dict[tuple[str, str], list[Measurement]] = {}
    for run in runs:
        for measurement in run:
            found.setdefault((measurement.row, measurement.name), []).append(measurement)
    return [
        replace(same[0], value=statistics.median(values), runs=values)
        for same in found.values()
        for values in [tuple(m.value for m in same)]
    ]


def table(measurements: Iterable[Measurement]) -> str:
    """The scorecard as a Markdown table."""
    lines = [
        "| row | what | measurement | gate | outcome | runs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for m in measurements:
        unit = f" {m.unit}" if m.unit else ""
        value = "" if m.note else f"{m.value:.4g}{unit}"
        sign = "≥" if m.least else "≤"
        gate = "" if m.note else f"{sign} {m.limit:.4g}{unit}"
        runs = "" if m.note else ", ".join(f"{value:.4g}" for value in m.runs)
        lines.append(f"| {m.row} | {m.name} | {value} | {gate} | {m.outcome} | {runs} |")
    return "\n".join(lines)


def write(path: Path, measurements: Sequence[Measurement], *, form: str) -> None:
    """Write the scorecard as JSON."""
    rows = [{**asdict(m), "outcome": m.outcome} for m in measurements]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"form": form, "rows": rows}, indent=2) + "\n")

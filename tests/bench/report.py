"""Renders docs/performance.md and its charts.

    python -m tests.bench.report     # merges build/bench.json and renders the page

Run it also after a merge conflict in the page: older results do not replace newer ones.

The last results of each bench are kept in docs/performance/measurements.json, so that a bench that
did not run keeps its section. The page is a function of that file and of the texts beside it,
which are written by hand: method.md and what-did-not-help.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .bars import BARS, bars_of
from .charts import Row, chart, number

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
FOLDER = ROOT / "docs" / "performance"
MEASUREMENTS = FOLDER / "measurements.json"
CAPACITY = ROOT / "libs" / "cli" / "src" / "searchbus_cli" / "capacity.json"

SIZE = re.compile(r"^(?P<size>\d[\d,]* [a-z]+): (?P<name>.+)$")
"""The name of a value that was measured at several sizes."""

TITLES = {
    "toolindex": "The tool index under 32 callers",
    "finding": "tools/search through the edge",
    "latency": "Retrieval",
}


def merged(known: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """The known results of all benches, replaced by those of `results` where these are not older."""
    if not results:
        return known
    machine = results["machine"]
    merged = dict(known)
    for name, values in results.items():
        if name == "machine":
            continue
        if name not in known or known[name]["machine"]["date"] <= machine["date"]:
            merged[name] = {"machine": machine, "values": values}
    return dict(sorted(merged.items()))


def render(benches: dict[str, Any]) -> dict[str, str]:
    """The page and its charts, by their paths relative to docs/."""
    charts = dict(_charts(benches))
    parts = ["# Performance", _machines(benches), _text("method")]
    parts.append("Beside other servers and gateways: [a page of its own](performance/peers.md).")
    parts += ["## Bars", *_bars(benches)]
    for name, bench in benches.items():
        if sizes := _sized(bench):
            title = TITLES.get(name, name)
            parts += [f"## {title}, by size", _size_table(sizes), *_images(charts, f"{name}-")]
    others = list(_others(benches))
    if others:
        parts += ["## All other measurements", *others]
    parts.append(_text("what-did-not-help"))
    page = "\n\n".join(part for part in parts if part) + "\n"
    return {"performance.md": page, **{f"performance/{name}": s for name, s in charts.items()}}


def write(results: dict[str, Any]) -> None:
    """Merge the results of a run into the known ones, and write them, the page and the charts."""
    known = json.loads(MEASUREMENTS.read_text()) if MEASUREMENTS.exists() else {}
    benches = merged(known, results)
    MEASUREMENTS.write_text(json.dumps(benches, indent=2) + "\n")
    for name, text in render(benches).items():
        (PAGE.parent / name).write_text(text)
    table = table_of(benches)
    if table is not None:  # what `searchbus plan` calculates with
        CAPACITY.write_text(json.dumps(dict(sorted(table.items())), indent=1) + "\n")


def table_of(benches: Mapping[str, Any]) -> dict[str, Any] | None:
    """The table from the measurements of `make bench`; None where `sizing` did not run.

    Processes of one service, such as `ddg-2`, are added.
    """
    if "sizing" not in benches:
        return None
    found: dict[str, Any] = {}
    for name, value in benches["sizing"]["values"].items():
        found[name] = value
        if isinstance(value, dict):
            found[name] = {}
            for process, amount in value.items():
                service = process.partition("-")[0]
                found[name][service] = round(found[name].get(service, 0) + amount, 2)
    return found


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text().strip()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _machines(benches: dict[str, Any]) -> str:
    """One line for each machine and date, with the benches that ran there."""
    ran: dict[tuple[str, ...], list[str]] = {}
    for name, bench in benches.items():
        m = bench["machine"]
        ran.setdefault((m["date"][:10], m["processor"], str(m["cores"]), m["versions"]), []).append(
            name
        )
    lines = [
        f"- {date}: {processor}, {cores} cores; {versions}. Benches: {', '.join(names)}."
        for (date, processor, cores, versions), names in sorted(ran.items())
    ]
    missing = sorted(set(BARS) - set(benches))
    if missing:
        lines.append(f"- Not measured yet: {', '.join(missing)}.")
    return "\n".join(["Written by `make bench`; do not edit. Measured on:", "", *lines])


def _bars(benches: dict[str, Any]) -> Iterator[str]:
    bars = [bar for name, bench in benches.items() for bar in bars_of(name, bench["values"])]
    yield "`make bench` fails when a measurement misses its bar."
    yield table(
        ["measurement", "value", "bar", ""],
        [
            [f"{bar.bench}: {bar.name}", "not measured" if bar.value is None else number(bar.value),
             f"{bar.sign} {number(bar.bar)}", "**missed**" if bar.missed else ""]
            for bar in bars
        ],
    )  # fmt: skip


def _sized(bench: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The values that a bench measured at several sizes, by size: {"1,000 tools": ...}."""
    found: dict[str, dict[str, float]] = {}
    for key, value in bench["values"].items():
        if match := SIZE.match(key):
            found.setdefault(match["size"], {})[match["name"]] = value
    return dict(sorted(found.items(), key=lambda item: int(re.sub(r"\D", "", item[0]))))


def _size_table(sizes: dict[str, dict[str, float]]) -> str:
    names = dict.fromkeys(name for measured in sizes.values() for name in measured)
    rows = [
        [name, *(_cell(each[name]) if name in each else "" for each in sizes.values())]
        for name in names
    ]
    return table(["measurement", *sizes], rows)


def _size_chart(sizes: dict[str, dict[str, float]]) -> list[Row]:
    """A row for each p50 and size, up to the p99 where there is one."""
    names = dict.fromkeys(name for measured in sizes.values() for name in measured)
    return [
        Row(
            ", ".join(filter(None, [size, name.removesuffix("p50 ms").strip()])),
            measured[name], measured.get(name.replace("p50", "p99")), own=True,
        )
        for name in names if name.endswith("p50 ms")
        for size, measured in sizes.items() if measured.get(name)
    ]  # fmt: skip


def _others(benches: dict[str, Any]) -> Iterator[str]:
    """A table for each bench, of the measurements that have no section of their own."""
    for name, bench in benches.items():
        rows = [
            [key, _cell(value)] for key, value in bench["values"].items() if not SIZE.match(key)
        ]
        if rows:
            yield f"### {name}"
            yield table(["measurement", "value"], rows)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_cell(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return number(value) if isinstance(value, int | float) else str(value)


def _charts(benches: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, bench in benches.items():
        if rows := _size_chart(_sized(bench)):
            title = TITLES.get(name, name)
            yield f"{name}-size.svg", chart(f"{title}: response time by size", "ms", rows)


def _images(charts: dict[str, str], prefix: str) -> list[str]:
    return [
        f"![{name.removesuffix('.svg')}](performance/{name})"
        for name in charts
        if name.startswith(prefix)
    ]


if __name__ == "__main__":
    new = ROOT / "build" / "bench.json"
    write(json.loads(new.read_text()) if new.exists() else {})
    sys.stderr.write(f"rendered {PAGE.relative_to(ROOT)}\n")

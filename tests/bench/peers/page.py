"""Renders docs/performance/peers.md and its charts from what was measured.

The page is a function of peers.json and of systems.md beside it, which is written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..bars import Bar
from ..charts import Row, chart, number
from ..report import table
from .comparison import ALL, KILLED, LIST, PACED, POISONED, SLOW

FOLDER = Path(__file__).parents[3] / "docs" / "performance"
_COLUMNS = {
    "calls/s": "calls/s",
    "p50 ms": "p50 ms, alone",
    ALL: "CPU of all processes",
    PACED: "the same at 50 calls/s",
}
_CHARTS = {
    "calls": ("Calls a second, 16 in flight", "calls/s", "calls/s"),
    "cpu": ("CPU of one call, all processes", "raw ASGI answers", ALL),
    "latency": ("p50 of one call at a time", "ms", "p50 ms"),
}
_FAULTS = {
    LIST: ("10,000 tools", "One upstream lists them in one page. Median of three whole lists."),
    SLOW: ("A slow upstream", "Sixteen callers wait for a tool that takes a second, another calls "
           "a quick one. A call without an answer after five seconds has failed."),
    KILLED: ("kill -9 of the upstream", "It is killed under 50 calls/s, and started again on the "
             "same port three seconds later. Recovery: from then to the first call after which "
             "none failed."),
    POISONED: ("A poisoned schema", "The `inputSchema` of one tool is no JSON Schema. The upstream "
               "checks no argument: a wrong one that is refused was refused by the gateway."),
}  # fmt: skip
_ATTACHED, _OWN = "searchbus, attached", "searchbus, its own tool"


def bars(found: Mapping[str, Any]) -> list[Bar]:
    """What is asked of searchbus; a value is None where the other system is absent."""
    systems = found["systems"]
    envoy, go, rmcp = (
        systems.get(n) for n in ("Envoy mcp_router", "Go SDK server", "rmcp server (Rust)")
    )
    attached, own = systems[_ATTACHED], systems[_OWN]
    rows = {
        "attached: calls/s / Envoy's": (
            ">=", 0.3, envoy and attached["calls/s"] / envoy["calls/s"]),
        "attached: CPU without the upstream's": ("<=", 12, rmcp and attached[ALL] - rmcp[ALL]),
        "attached: p50 ms alone": ("<=", 0.8, attached["p50 ms"]),
        "own tool: calls/s / the Go SDK server's": (
            ">=", 1, go and own["calls/s"] / go["calls/s"]),
        "own tool: CPU at 50 calls/s": ("<=", 2.5, own[PACED]),
    }  # fmt: skip
    return [Bar("peers", name, *bar) for name, bar in rows.items()]


def write(found: Mapping[str, Any]) -> None:
    """Write the page and its charts."""
    for name, text in render(found).items():
        (FOLDER / name).write_text(text)


def render(found: Mapping[str, Any]) -> dict[str, str]:
    """The page and its charts, by name."""
    charts = {
        f"peers-{name}.svg": chart(title, unit, [
            Row(system, row[key], own=row["own"]) for system, row in found["systems"].items()
        ])
        for name, (title, unit, key) in _CHARTS.items()
    }  # fmt: skip
    images = (f"![{title}](peers-{name}.svg)" for name, (title, *_) in _CHARTS.items())
    parts = [*_head(found), *_calls(found), *images, *_faults(found["faults"])]
    parts.append((FOLDER / "systems.md").read_text().strip())
    return {"peers.md": "\n\n".join(parts) + "\n", **charts}


def _head(found: Mapping[str, Any]) -> Iterator[str]:
    machine = found["machine"]
    yield "# Beside other servers and gateways"
    yield (
        "Written by `make bench PEERS=1`; do not edit. The same calls and faults for all, in one "
        f"run on {machine['date']}: {machine['processor']}, {machine['cores']} cores; load of the "
        f"machine before it {found['load before']}; {machine['versions']}."
    )
    yield table(
        ["asked of searchbus", "value", "bar", ""],
        [[b.name, "not measured" if b.value is None else number(b.value),
          f"{b.sign} {number(b.bar)}", "**missed**" if b.missed else ""] for b in bars(found)],
    )  # fmt: skip


def _calls(found: Mapping[str, Any]) -> Iterator[str]:
    systems = found["systems"]
    yield "## Calls"
    yield (
        f"Medians of {found['rounds']} rounds. CPU is in raw ASGI answers of the same round. "
        f"Behind each gateway is the {found['upstream']}, whose CPU counts, too."
    )
    yield table(
        ["system", "version", *_COLUMNS.values()],
        [[_name(name), row["version"], *(number(row[key]) for key in _COLUMNS)]
         for name, row in systems.items()],
    )  # fmt: skip
    spread = max(row["calls/s max / min"] for row in systems.values())
    failed = {name: int(row["paced failures"]) for name, row in systems.items()}
    yield (
        f"Between the rounds calls/s of one system differed by up to {number(spread)} times. Calls "
        f"that failed at 50 calls/s: {_cell({n: count for n, count in failed.items() if count})}."
    )
    yield "Not measured:"
    yield "\n".join(f"- **{name}**: {reason}" for name, reason in found["skipped"].items())


def _faults(faults: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for fault, (title, text) in _FAULTS.items():
        columns = list(max((found[fault] for found in faults.values()), key=len))
        yield f"## {title}"
        yield text
        yield table(
            ["gateway", *columns],
            [[_name(name), *(_cell(found[fault].get(c, "–")) for c in columns)]
             for name, found in faults.items()],
        )  # fmt: skip
        for name, found in faults.items():
            if reason := found[fault].get("not measured"):
                yield f"{name}: {reason}"


def _name(name: str) -> str:
    return f"**{name}**" if name in (_ATTACHED, _OWN) else name


def _cell(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{count} {kind}" for kind, count in value.items()) or "0"
        case str():
            return value
    return number(value)

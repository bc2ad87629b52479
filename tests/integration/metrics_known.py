"""The metrics that the code measures, under the names that Prometheus gives them."""

from __future__ import annotations

import functools
import re

from .engine import ROOT

_OWN = re.compile(
    r"(create_histogram|create_counter|LiveGauge(?:\[\w+\])?|_gauge)\(\s*(?:[\w.()\"]+,\s*)??"
    r"\"((?:searchbus|mcp)\.[a-z_.]+)\"(.*?)\n?\)",
    re.S,
)
_TABLE = re.compile(r"^    \"((?:searchbus|mcp)\.[a-z_.]+)\": \"", re.M)
"""A counter in a table of names and descriptions."""
OF_LIBRARIES = {
    # FastAPI's own, prometheus_client's own, and Prometheus's.
    "http_server_request_duration_seconds_count", "http_server_request_duration_seconds_bucket",
    "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "up",
}  # fmt: skip


@functools.cache
def known_metrics() -> frozenset[str]:
    """Names as queries use them."""
    found = set(OF_LIBRARIES)
    for path in [*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")]:
        text = path.read_text()
        found |= {f"{name.replace('.', '_')}_total" for name in _TABLE.findall(text)}
        for how, name, rest in _OWN.findall(text):
            base = name.replace(".", "_")
            if how == "create_counter":
                found.add(f"{base}_total")
            elif how == "create_histogram":
                unit = "_seconds" if 'unit="s"' in rest else ""
                found |= {f"{base}{unit}_{part}" for part in ("bucket", "count", "sum")}
            else:
                found.add(base)
    return frozenset(found)


def metrics_in(expression: str) -> set[str]:
    """The metrics that a query uses."""
    bare = re.sub(r"\"[^\"]*\"", "", expression)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    return set(
        re.findall(r"\b((?:searchbus|mcp|http|process)_[a-z_]+|up)\b(?=\s*(?:\{|\[|\)|$|\s))", bare)
    )

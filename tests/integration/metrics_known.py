"""The metrics that the code measures, under the names that Prometheus gives them."""

from __future__ import annotations

import functools
import re

from scripts.site.measured import metrics

OF_LIBRARIES = {
    # FastAPI's own, prometheus_client's own, Prometheus's, and those of NATS and Qdrant.
    "http_server_request_duration_seconds_count", "http_server_request_duration_seconds_bucket",
    "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "up",
    "nats_varz_slow_consumers", "collection_dead_replicas",
}  # fmt: skip


@functools.cache
def known_metrics() -> frozenset[str]:
    """Names as queries use them."""
    found = set(OF_LIBRARIES)
    for name, (kind, _, _) in metrics().items():
        parts = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        found |= {f"{name}{part}" for part in parts}
    return frozenset(found)


def metrics_in(expression: str) -> set[str]:
    """The metrics that a query uses."""
    bare = re.sub(r"\"[^\"]*\"", "", expression)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    return set(
        re.findall(
            r"\b((?:searchbus|mcp|http|process|nats|collection)_[a-z_]+|up)\b(?=\s*(?:\{|\[|\)|$|\s))",
            bare,
        )
    )

"""The rows of the scorecard by name, in the order of its numbers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from . import (
    rows_attach,
    rows_bus,
    rows_company,
    rows_load,
    rows_lost,
    rows_neighbours,
    rows_network,
    rows_qdrant,
    rows_regions,
    rows_soak,
    rows_stdio,
    rows_storage,
    rows_traces,
    rows_upstreams,
    rows_workers,
)
from .scorecard import Measurement

Row = Callable[..., Awaitable[list[Measurement]]]
"""Called with a folder that does not exist yet, and `short`."""

ROWS: dict[str, Row] = {
    "killed": rows_workers.killed,
    "replaced": rows_workers.replaced,
    "stopped": rows_workers.stopped,
    "lost_workers": rows_lost.lost_workers,
    "hung_alone": rows_workers.hung_alone,
    "restarted": rows_bus.restarted,
    "network": rows_network.network,
    "regions": rows_regions.regions,
    "overloaded": rows_load.overloaded,
    "refused": rows_upstreams.refused,
    "hangs": rows_upstreams.hangs,
    "harmful": rows_upstreams.harmful,
    "documents": rows_load.documents,
    "malformed": rows_bus.malformed,
    "large_answers": rows_load.large_answers,
    "disconnected": rows_load.disconnected,
    "nothing_left": rows_load.nothing_left,
    "traced": rows_traces.traced,
    "scraper_blocked": rows_upstreams.scraper_blocked,
    "cluster_loses_a_server": rows_bus.cluster_loses_a_server,
    "scrapers": rows_upstreams.scrapers_for_long,
    "thousand_workers": rows_company.thousand_workers,
    "full_disk": rows_storage.full_disk,
    "damaged": rows_storage.damaged,
    "qdrant": rows_qdrant.qdrant,
    "stdio": rows_stdio.stdio,
    "attached": rows_attach.attached,
    "neighbours": rows_neighbours.neighbours,
    "soak": rows_soak.soak,
}
LONG: dict[str, Row] = {
    **ROWS,
    "scraper_blocked": partial(
        rows_upstreams.scraper_blocked, before_s=180.0, blocked_s=300.0, after_s=600.0
    ),
    "scrapers": partial(rows_upstreams.scrapers_for_long, seconds=720.0),
    "cluster_loses_a_server": partial(rows_bus.cluster_loses_a_server, away_s=60.0),
    "soak": partial(rows_soak.soak, seconds=1200.0),
}
"""The same rows at their full length."""
PARTS: dict[str, Row] = {
    f"{rows_neighbours.NAME}-{way}": partial(rows_neighbours.neighbours, ways=(way,))
    for way in rows_neighbours.WAYS
}
"""Parts of rows, to be measured alone."""
ONCE = frozenset({"scraper_blocked", "scrapers", "soak"})
"""Rows that the long form runs only once: they repeat themselves for many minutes."""

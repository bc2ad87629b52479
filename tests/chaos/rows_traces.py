"""Row 20: whether each request is one connected trace, and what tracing costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from tests.integration.collector import Collector, Span

from .client import Client
from .fleet import Fleet
from .scorecard import Measurement, at_least, at_most

_PROCESSES = {"edge", "chaos"}


async def traced(folder: Path, *, short: bool) -> list[Measurement]:
    """The same calls at two edges in turn, of which one and its worker export every span."""
    rounds, calls = (1, 200) if short else (9, 400)
    with Collector() as collector:
        async with Fleet(folder) as fleet:
            for name, settings in {
                "traced": {"otlp_endpoint": collector.url},
                "plain": {"trace_sample_ratio": 0},
            }.items():
                await fleet.edge(subject_prefix=name, **settings)
                fleet.start("tests.chaos.worker", subject_prefix=name, **settings)
            await fleet.ready(workers=2)
            added = []
            async with Client(fleet.ports[:1]) as one, Client(fleet.ports[1:]) as other:
                for _ in range(rounds):
                    times_s = await _times_s(one, other, calls)
                    p50_s = [statistics.median(of_one) for of_one in times_s]
                    added.append(100 * (p50_s[0] / p50_s[1] - 1))
        # The processes have ended, and exported what they had.
        traces = [spans for spans in collector.spans.values() if _is_call(spans)]
    connected = sum(map(_is_connected, traces))
    return [
        at_least("20", f"calls of {rounds * calls} that are one connected trace", connected,
                 rounds * calls),
        at_most("20", "added to the p50 by tracing", statistics.median(added), 5, "%"),
    ]  # fmt: skip


async def _times_s(one: Client, other: Client, calls: int) -> tuple[list[float], list[float]]:
    """The times of the same calls at both edges, which take turns in being the first."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(calls):
        for place in (0, 1) if number % 2 else (1, 0):
            outcome = await (one, other)[place].echo()
            assert outcome.kind == "answer"
            found[place].append(outcome.took_s)
    return found


def _is_call(spans: Sequence[Span]) -> bool:
    return any("tools/call" in span.name for span in spans)


def _is_connected(spans: Sequence[Span]) -> bool:
    """One root, every other span below one of the same trace, and both processes."""
    known = {span.span_id for span in spans}
    roots = [span for span in spans if not span.parent_id]
    below = [span for span in spans if span.parent_id in known]
    return (
        len(roots) == 1
        and len(below) == len(spans) - 1
        and {span.service for span in spans} == _PROCESSES
    )

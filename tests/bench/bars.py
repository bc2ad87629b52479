"""The bars: what a bench has to reach, by bench and name of the measurement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..search.sets import SHIPPED
from .edge import REVISIONS

BARS: dict[str, dict[str, tuple[str, float]]] = {
    "cranfield": {"ndcg@10": (">=", 0.438), "above the better leg": (">=", -0.005)},
    "python_docs": {"above the better leg": (">=", -0.005)},
    "fomc": {"R@1": (">=", 0.86), "R@5": (">=", 0.95)},
    "collections": {"lost by searching all": ("<=", 0.02)},
    "quantization": {
        "cranfield: lost by int8": ("<=", 0.005),
        "fomc: lost by int8": ("<=", 0.005),
    },
    "latency": {"edge p50 / store p50": ("<=", 4.0)},
    "passages": {"100,000 / 1,000, with the model's time": ("<=", 2.0)},
    "ingest": {
        "ingest / model, tokens per CPU s": (">=", 0.97),
        "query p50 during an ingest / without": ("<=", 2.0),
    },
    "tools": {
        "livemcpbench ndcg@10": (">=", 0.455),
        "stabletoolbench ndcg@10": (">=", 0.755),
        **{
            f"{name}: nonsense_queries_held_out empty": (">=", 50)
            for name in ("shipped", "office", "livemcpbench", "stabletoolbench")
        },
        **{
            f"{name}: wrongly empty": ("<=", 0.02)
            for name in ("office", "livemcpbench", "stabletoolbench")
        },
        **{f"{name}: right first": (">=", 27) for name in SHIPPED},
        **{f"{name}: returned": ("<=", 3.5) for name in SHIPPED},
        **{f"{name}: empty": (">=", 17) for name in SHIPPED},
    },
    "tracing": {"added share of p50": ("<=", 0.05)},
    "edge": {
        "tools/call 2025-11-25": ("<=", 8),
        "tools/call 2026-07-28": ("<=", 8),
        "/api/v1": ("<=", 10),
        "tools/list 2025-11-25": ("<=", 3),
        "tools/list 2026-07-28": ("<=", 3),
        "worker 2026-07-28": ("<=", 4),
        "50 calls/s, all processes 2026-07-28": ("<=", 2.5),
        "p50 / (raw p50 + NATS p50)": ("<=", 3),
    },
    "finding": {
        "50,000 tools: p50 / 1,000 tools": ("<=", 1.5),
        "1,000 tools: index CPU ms": ("<=", 3),
        **{f"1,000 tools: edge CPU / raw {revision}": ("<=", 8) for revision in REVISIONS},
        **{f"50,000 tools: edge CPU / raw {revision}": ("<=", 8) for revision in REVISIONS},
    },
    "soak": {
        "edge RSS MiB after 100,000 calls": ("<=", 120),
        "MiB added by the last 80,000 calls": ("<=", 4),
        "share of connected traces": (">=", 1),
    },
    "plans": {"saved share of tokens": (">=", 0.8), "added ms": ("<=", 10)},
    "attach": {
        "p50 added ms, 1 in flight": ("<=", 2),
        "p50 ms, 1 in flight, searchbus": ("<=", 0.8),
        "10,000 tools: search p50 ms": ("<=", 10),
        "10,000 tools: search p99 ms": ("<=", 40),
    },
    "consoles": {
        "p99 with 20 consoles / without": ("<=", 1.1),
        "share of a core, one idle console": ("<=", 0.01),
    },
    "startup": {
        "new folder: wall / imports": ("<=", 3),
        "new folder: CPU / imports": ("<=", 4),
        "used folder: wall / imports": ("<=", 3),
        "used folder: CPU / imports": ("<=", 4),
    },
    "rest": {"share of a core": ("<=", 0.003), "PSS MiB": ("<=", 300)},
    "auth": {"warm token CPU us": ("<=", 40)},
    "web": {
        "storm: wasted share": ("<=", 0.05),
        "storm: used share of the limit": (">=", 0.85),
        "CPU ms a page": ("<=", 15),
    },
    "ddg": {
        "parse p50 ms": ("<=", 2.0),
        "share of linear, 2 workers": (">=", 0.9),
        "share of linear, 4 workers": (">=", 0.9),
        "paced minute: challenges": ("<=", 0),
        "paced minute: failed": ("<=", 0),
    },
    "toolindex": {
        "10,000 tools: callers p50 ms": ("<=", 10),
        "10,000 tools: callers p99 ms": ("<=", 40),
        "10,000 tools: new worker's tool found after s": ("<=", 2),
    },
}


@dataclass(frozen=True)
class Bar:
    """A measurement beside its bar; `value` is None when the bench did not measure it."""

    bench: str
    name: str
    sign: str
    bar: float
    value: float | None

    @property
    def missed(self) -> bool:
        """Whether it was measured and is on the wrong side."""
        if self.value is None:
            return False
        return self.value < self.bar if self.sign == ">=" else self.value > self.bar


def bars_of(bench: str, results: dict[str, Any]) -> list[Bar]:
    """The bars of a bench, with what it measured."""
    return [
        Bar(bench, name, sign, bar, results.get(name))
        for name, (sign, bar) in BARS.get(bench, {}).items()
    ]

"""`make bench`: measures and writes build/bench.json. Give names to run only some.

    python -m tests.bench [cranfield] [fomc] [collections] [latency] [tools] [toolindex] [ddg] [web] [auth]
        [tracing] [sizing] [edge]

Needs the reference data beside the checkout. Times are given as ratios to a baseline of the same
run, since machines differ and are noisy.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import auth, collections, cranfield, ddg, edge, fomc, latency, sizing, tools, tracing, web

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared"
BENCHES = {
    "cranfield": cranfield.run,
    "fomc": fomc.run,
    "collections": collections.run,
    "latency": latency.run,
    "tools": tools.run_quality,
    "toolindex": tools.run_scale,
    "ddg": ddg.run,
    "web": web.run,
    "auth": auth.run,
    "tracing": tracing.run,
    "sizing": sizing.run,
    "edge": edge.run,
}
BARS: dict[str, dict[str, Any]] = {
    "cranfield": {"ndcg@10": (">=", 0.43)},
    "fomc": {"R@1": (">=", 0.75), "R@5": (">=", 0.92)},
    "collections": {"lost by searching all": ("<=", 0.02)},
    "latency": {"edge p50 / store p50": ("<=", 4.0)},
    "tools": {
        "livemcpbench ndcg@10": (">=", 0.43),
        "livemcpbench recall@10": (">=", 0.51),
        "stabletoolbench ndcg@10": (">=", 0.70),
        "stabletoolbench recall@10": (">=", 0.79),
    },
    "tracing": {"added share of p50": ("<=", 0.05)},
    "edge": {
        "tools/call 2025-11-25": ("<=", 8),
        "tools/call 2026-07-28": ("<=", 8),
        "tools/list 2025-11-25": ("<=", 3),
        "tools/list 2026-07-28": ("<=", 3),
        "worker 2026-07-28": ("<=", 4),
        "p50 / (raw p50 + NATS p50)": ("<=", 3),
    },
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


def main() -> int:
    """Run, print, write; exit code 1 when a bar is missed."""
    if not REFERENCE.is_dir():
        sys.stdout.write(f"bench: skipped, no reference data at {REFERENCE}\n")
        return 0
    names = sys.argv[1:] or list(BENCHES)
    unknown = set(names) - set(BENCHES)
    if unknown:
        sys.stderr.write(f"bench: unknown {sorted(unknown)}; there are {sorted(BENCHES)}\n")
        return 2
    results: dict[str, Any] = {"machine": {"cpus": os.cpu_count()}}
    missed = []
    # latency and collections search the store that fomc fills.
    workdir = Path(tempfile.mkdtemp(prefix="searchbus-bench-"))
    for name in names:
        sys.stdout.write(f"--- {name}\n")
        results[name] = asyncio.run(BENCHES[name](REFERENCE, workdir))
        sys.stdout.write(json.dumps(results[name], indent=2) + "\n")
        for key, (sign, bar) in BARS.get(name, {}).items():
            value = results[name][key]
            if not (value >= bar if sign == ">=" else value <= bar):
                missed.append(f"{name}: {key} is {value}, should be {sign} {bar}")
    out = ROOT / "build" / "bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")
    for line in missed:
        sys.stdout.write(f"MISSED {line}\n")
    sys.stdout.write(f"written to {out}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

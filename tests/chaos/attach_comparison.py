"""The faults of the row `attached` at searchbus and at fastmcp's proxy, side by side.

    python -m tests.chaos.attach_comparison [--short]

Prints a table; fastmcp is installed into build/peers at the first run.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from searchbus_testing import free_port, until, watch_this_process
from tests.bench.peers.environments import environment, versions

from .attach_faults import DEADLINE_S, inject
from .client import Client, counts
from .faulty import FAULTS, FaultyServers
from .fleet import READY_S
from .rows_attach import Run, at_searchbus

GATEWAY = Path(__file__).parents[1] / "bench" / "peers" / "servers" / "fastmcp_gateway.py"
_PATIENCE_S = 15.0
"""For a server to answer again; fastmcp's may never do."""


async def at_fastmcp(folder: Path, *, short: bool) -> Run:
    """Give the faults to servers behind fastmcp's proxy."""
    python = environment("fastmcp")
    port = free_port()
    deadline_s = DEADLINE_S["short" if short else "normal"]
    with FaultyServers(folder / "servers") as servers:
        file = folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers.keys()}))
        with (folder / "log").open("wb") as log:
            gateway = subprocess.Popen([python, GATEWAY, str(port), file], stdout=log, stderr=log)
        try:
            # With the newest revision this version lists no tools of servers that are older.
            async with Client([port], revision="2025-11-25") as client:

                async def answers() -> bool:
                    found = await client.echo("s0_echo", deadline_s=deadline_s)
                    return found.kind == "answer"

                await until(answers, timeout_s=READY_S, interval_s=0.5)
                found = await inject(
                    client, servers, "{}_{}".format,
                    deadline_s=deadline_s, patience_s=_PATIENCE_S, short=short,
                )  # fmt: skip
        finally:
            gateway.terminate()
            gateway.wait(30)
        return Run(found, servers.done_twice(), 0, len(servers.commands()))


def table(runs: dict[str, Run]) -> str:
    """The comparison in Markdown."""
    rows: dict[str, list[str]] = {}
    for run in runs.values():
        every = counts([outcome for _, _, outcome in run.found.outcomes])
        others = counts(run.found.others())
        cells = {
            "calls": f"{sum(every[kind] for kind in KINDS)}",
            "own answer": f"{every['answer']}",
            "error in time": f"{every['error'] + every['refused']}",
            "neither by the deadline": f"{every['broken']}",
            "failed, of servers without the fault": f"{others['failed']}",
            "their p99 / before": f"{run.found.others_p99_ratio:.2f}",
            "calls done twice, though they may not be": f"{run.twice}",
            "servers that did not answer within 15 s after a fault": f"{len(run.found.lost)}",
            "changed definitions shown to the operator": f"{run.held}",
            "processes left": f"{run.left}",
        }
        for fault in FAULTS:
            own = counts([o for f, own, o in run.found.outcomes if f == fault and own])
            again = [seconds for f, seconds in run.found.again_s if f == fault]
            after = f"{statistics.median(again):.1f} s" if again else "never"
            cells[f"{fault}: answers, errors, neither; again after"] = (
                f"{own['answer']}, {own['error'] + own['refused']}, {own['broken']}; {after}"
            )
        for name, cell in cells.items():
            rows.setdefault(name, []).append(cell)
    lines = [f"| | {' | '.join(runs)} |", "| --- |" + " --- |" * len(runs)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines)


KINDS = ("answer", "error", "refused", "late", "silent", "lost", "wrong")


async def main(*, short: bool) -> None:
    """Run both and print the table."""
    runs = {}
    fastmcp = f"fastmcp {versions('fastmcp')['fastmcp']}, proxy"
    for name, run in (("searchbus", at_searchbus), (fastmcp, at_fastmcp)):
        with tempfile.TemporaryDirectory(prefix="searchbus-attach-") as folder:
            runs[name] = await run(Path(folder) / "run", short=short)
    sys.stdout.write(table(runs) + "\n")


if __name__ == "__main__":
    watch_this_process()
    asyncio.run(main(short="--short" in sys.argv))

"""The faults of the row `attached` at searchbus and at fastmcp's proxy, one after the other in one run.

    python -m tests.chaos.attach_comparison [--short] [client] [request]

Each gateway has the same five servers, gets the same calls in the same order, each fault before the same call, and has
the same deadline, a second after which the client gives up. If a server does not answer within five seconds after its
fault, or the gateway answered no call during it, the gateway is restarted. So a run ends by itself. fastmcp's proxy is measured with a session for each
`client`, and for each `request`, which is its default. It prints tables. fastmcp is installed into build/peers at the
first run.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from searchbus_testing import free_port, until, watch_this_process
from tests.bench.peers.environments import environment, versions

from .attach_faults import COMPARED, SHORT, Limits, inject
from .client import Client, Outcome, counts
from .faulty import FAULTS, FaultyServers
from .fleet import READY_S
from .left import Left, left_of
from .rows_attach import Run, at_searchbus
from .watched import holdings

GATEWAY = Path(__file__).parents[1] / "bench" / "peers" / "servers" / "fastmcp_gateway.py"
SESSIONS = ("client", "request")
"""What has a session of its own with all servers."""
_REVISION = "2025-11-25"
"""With the newest one this version lists no tools of servers that are older."""


@dataclass
class Proxy:
    """fastmcp's proxy in a process of its own.

    Args:
        sessions: `client` or `request`.
        folder: for its files and its log.
    """

    sessions: str
    folder: Path
    servers: FaultyServers
    limits: Limits

    def __post_init__(self) -> None:
        self.report = self.folder / "tasks.json"
        self._file = self.folder / "mcp.json"
        # In milliseconds; searchbus has the same limit of a call.
        timeout = {"timeout": round(self.limits.deadline_s * 1000)}
        servers = {name: keys | timeout for name, keys in self.servers.keys().items()}
        self._file.write_text(json.dumps({"mcpServers": servers}))
        self.client = Client([free_port()], revision=_REVISION, give_up_s=self.limits.give_up_s)
        self.tasks_before = 0

    async def start(self) -> None:
        """Start it, wait until it listens, and begin the client's session."""
        arguments = [str(self.client.ports[0]), self._file, self.sessions, self.report]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [environment("fastmcp"), GATEWAY, *arguments], stdout=log, stderr=log
            )
        await until(self._listens, timeout_s=READY_S, interval_s=0.1)
        self.tasks_before = sum((await holdings(self.pid, self.report))["tasks"].values())
        if self.sessions == "client":
            self.client.session = await self._begin()

    async def restart(self) -> None:
        """End it and start it again."""
        self.stop()
        await self.start()

    def stop(self) -> None:
        """End it by force: one that has too much to do takes long to end."""
        self._process.kill()
        self._process.wait()

    async def left(self) -> Left:
        """What is left when its client has gone."""
        if self.client.session:
            async with self._http() as http:
                await http.delete("/mcp", headers={"Mcp-Session-Id": self.client.session})
        self.client.close()
        return await left_of(
            self.pid, self.report, self.servers.ports,
            tasks_before=self.tasks_before, settle_s=self.limits.settle_s,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.client.ports[0])
        except OSError:
            return False
        writer.close()
        return True

    async def _begin(self) -> str:
        """A session of MCP."""
        params = {"protocolVersion": _REVISION, "capabilities": {},
                  "clientInfo": {"name": "chaos", "version": "1"}}  # fmt: skip
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        async with self._http() as http:
            found = await http.post("/mcp", json=message)
            session = found.raise_for_status().headers["Mcp-Session-Id"]
            done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            head = {"Mcp-Session-Id": session, "MCP-Protocol-Version": _REVISION}
            (await http.post("/mcp", json=done, headers=head)).raise_for_status()
        return session

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.client.ports[0]}", timeout=READY_S, trust_env=False,
            headers={"Accept": "application/json, text/event-stream"},
        )  # fmt: skip


@asynccontextmanager
async def proxy(sessions: str, folder: Path, limits: Limits) -> AsyncIterator[Proxy]:
    """fastmcp's proxy of five servers; both end with the context."""
    with FaultyServers(folder / "servers") as servers:
        found = Proxy(sessions, folder, servers, limits)
        await found.start()
        try:
            yield found
        finally:
            found.client.close()
            found.stop()


async def at_fastmcp(sessions: str, folder: Path, limits: Limits, *, short: bool) -> Run:
    """Give the faults to servers behind fastmcp's proxy, with a session for each client or request."""
    async with proxy(sessions, folder, limits) as gateway:
        found = await inject(
            gateway.client, gateway.servers, "{}_{}".format,
            limits=limits, short=short, restart=gateway.restart,
        )  # fmt: skip
        return Run(found, gateway.servers.done_twice(), held=None, left=await gateway.left())


def table(runs: Mapping[str, Run]) -> str:
    """The comparison in Markdown: all calls, then those of each fault."""
    rows: dict[str, list[str]] = {}
    for run in runs.values():
        found, left = run.found, run.left
        others = [outcome for _, own, outcome in found.outcomes if not own]
        every = [outcome for _, _, outcome in found.outcomes]
        again = [seconds for _, seconds in found.again_s]
        cells = {
            "calls": f"{len(every)}",
            "all: answers / errors in time / late / neither": _became(every),
            "of servers without the fault": _became(others),
            "their p99, s: without faults, and while others had them": (
                f"{found.quiet_p99_s:.3f}, {found.others_p99_s:.3f}"
            ),
            "calls done twice, though they may not be": f"{run.twice}",
            "servers without an answer 5 s after a fault; the gateway was restarted": (
                f"{len(found.lost)} of {len(found.lost) + len(again)}"
            ),
            "median time until an answer after a fault, of the others": (
                f"{statistics.median(again):.1f} s" if again else ""
            ),
            "changes of definitions shown as held": (
                "not offered" if run.held is None else f"{run.held}"
            ),
            "left at the end: processes, connections, tasks": (
                f"{left.processes}, {left.connections}, {left.tasks}"
            ),
        }
        for fault in FAULTS:
            of = [(own, outcome) for name, own, outcome in found.outcomes if name == fault]
            cells[f"{fault}: its server; others"] = "; ".join(
                _became([outcome for own, outcome in of if own is whose]) for whose in (True, False)
            )
        for name, cell in cells.items():
            rows.setdefault(name, []).append(cell)
    lines = [f"| | {' | '.join(runs)} |", "| --- |" + " --- |" * len(runs)]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return "\n".join(lines)


def _became(outcomes: Sequence[Outcome]) -> str:
    """Answers / errors in time / late / neither."""
    found = counts(outcomes)
    errors = found["error"] + found["refused"]
    return f"{found['answer']} / {errors} / {found['late']} / {found['broken'] - found['late']}"


async def main(*, sessions: Sequence[str], short: bool) -> None:
    """Run all and print the tables."""
    limits = replace(COMPARED, deadline_s=SHORT.deadline_s) if short else COMPARED
    runs = {}
    with tempfile.TemporaryDirectory(prefix="searchbus-attach-") as name:
        folder = Path(name)
        runs["searchbus"] = await at_searchbus(folder / "searchbus", limits, short=short)
        for each in sessions:
            runs[
                f"fastmcp {versions('fastmcp')['fastmcp']}, a session for each {each}"
            ] = await at_fastmcp(each, folder / each, limits, short=short)
    sys.stdout.write(table(runs) + "\n")


if __name__ == "__main__":
    watch_this_process()
    given = [argument for argument in sys.argv[1:] if argument in SESSIONS]
    asyncio.run(main(sessions=given or SESSIONS, short="--short" in sys.argv))

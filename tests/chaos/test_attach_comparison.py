"""How faults are given to a gateway, and what its table says: on the virtual clock, without processes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from tests.simulation.world import VirtualLoop, virtual_time

from .attach_comparison import table
from .attach_faults import COMPARED, Findings, inject
from .client import Client, Outcome
from .faulty import FAULTS
from .left import Left
from .rows_attach import Run

ANSWER_S = 0.01
LONGEST_S = 900.0
"""Of virtual time: a run that takes longer does not end by itself."""


class Servers:
    """The names of five servers, and which of them has which fault."""

    names = ("s0", "s1", "s2", "s3", "s4")

    def __init__(self) -> None:
        self.now: tuple[str, str] | None = None
        self.had: list[tuple[str, str]] = []

    def __getitem__(self, name: str) -> Server:
        return Server(self, name)


class Server:
    def __init__(self, servers: Servers, name: str) -> None:
        self.servers, self.name = servers, name

    def begin(self, fault: str) -> None:
        assert self.servers.now is None
        self.servers.now = (self.name, fault)
        self.servers.had.append((self.name, fault))

    def end(self, fault: str) -> None:
        assert self.servers.now == (self.name, fault)
        self.servers.now = None


class Gateway:
    """Plays the client too: a server with a fault fails at once, or at the deadline when it hangs.

    Args:
        breaks: faults after which a server does not answer until the gateway is restarted.
    """

    def __init__(self, servers: Servers, *, breaks: tuple[str, ...] = ()) -> None:
        self.servers, self.breaks = servers, breaks
        self.broken: set[str] = set()
        self.restarts = 0

    async def echo(self, tool: str, *, deadline_s: float) -> Outcome:
        started_s, name = time.monotonic(), tool.partition("_")[0]
        fault = self.servers.now[1] if self.servers.now and self.servers.now[0] == name else ""
        if fault in self.breaks:
            self.broken.add(name)
        failed = bool(fault) or name in self.broken
        await asyncio.sleep(deadline_s if fault == "hung" else ANSWER_S)
        return Outcome("error" if failed else "answer", "", started_s, time.monotonic() - started_s)

    async def restart(self) -> None:
        self.restarts += 1
        self.broken.clear()


def injected(gateway: Gateway) -> Findings:
    loop = VirtualLoop()

    async def run() -> Findings:
        async with asyncio.timeout(LONGEST_S):
            return await inject(
                gateway, gateway.servers, "{}_{}".format, limits=COMPARED, restart=gateway.restart
            )  # fmt: skip

    with virtual_time(loop), asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(run())


def test_each_server_has_each_fault_once_while_all_are_called():
    """1,020 calls, evenly over the servers; the probes after a fault are not among them."""
    servers = Servers()
    found = injected(Gateway(servers))
    assert [(name, fault) for fault in FAULTS for name in servers.names] == servers.had
    assert len(found.outcomes) == 1020
    assert Counter(fault for fault, _, _ in found.outcomes) == dict.fromkeys(FAULTS, 170)
    own = [outcome.kind for _, own, outcome in found.outcomes if own]
    # 34 calls are seven of four servers, and six of the last.
    assert Counter(own) == {"error": len(FAULTS) * 34}
    assert {outcome.kind for outcome in found.others()} == {"answer"}
    assert len(found.quiet_s) == len(FAULTS) * 34
    assert found.others_p99_ratio == pytest.approx(1)
    assert found.lost == []
    assert len(found.again_s) == 30


def test_a_server_that_does_not_answer_again_costs_a_restart():
    """It is named, and the others are measured with a gateway that works."""
    servers = Servers()
    gateway = Gateway(servers, breaks=("killed", "expired"))
    found = injected(gateway)
    assert found.lost == [
        f"{name} after {f}" for f in ("killed", "expired") for name in servers.names
    ]
    assert gateway.restarts == 10
    assert len(found.again_s) == 20
    assert {outcome.kind for outcome in found.others()} == {"answer"}


def test_a_gateway_that_never_answers_ends_the_run_too():
    """In a bounded time, and every call is counted."""
    gateway = Gateway(Servers(), breaks=FAULTS)
    gateway.restart = never = Never()
    found = injected(gateway)
    assert never.asked == len(found.lost) == 30
    assert len(found.outcomes) == 1020


class Never:
    """A restart that does not help."""

    asked = 0

    async def __call__(self) -> None:
        self.asked += 1


async def test_the_client_gives_up_some_time_after_the_deadline():
    """A gateway that accepts the request and says nothing does not hold the run."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server, Client([server.sockets[0].getsockname()[1]], give_up_s=0.2) as client:
        outcome = await client.echo("s0_echo", deadline_s=0.3)
    assert outcome.kind == "silent"


def test_the_table_counts_by_fault_and_by_whose():
    """Answers, errors in time, late ones, and calls with neither; what is left; who was restarted."""

    def outcomes(*kinds: str) -> list[Outcome]:
        return [Outcome(kind, "", 0.0, 0.5) for kind in kinds]

    own = outcomes("answer", "error", "refused", "late", "silent", "lost", "wrong")
    found = Findings(
        outcomes=[
            *(("hung", True, outcome) for outcome in own),
            *(("hung", False, outcome) for outcome in outcomes("answer", "answer", "error")),
            *(("killed", False, outcome) for outcome in outcomes("late")),
        ],
        quiet_s=[0.25] * 100, again_s=[("hung", 1.0), ("hung", 2.0), ("killed", 3.0)],
        lost=["s1 after hung"],
    )  # fmt: skip
    nothing = Findings(outcomes=[("list", True, outcomes("answer")[0])] * 2, quiet_s=[0.1])
    nothing.outcomes.append(("list", False, outcomes("answer")[0]))
    lines = table({
        "one": Run(found, twice=2, held=None, left=Left(1, 2, 3)),
        "other": Run(nothing, twice=0, held=4, left=Left(0, 0, 0)),
    }).splitlines()  # fmt: skip
    cells = {line.split(" | ")[0].strip("| "): line.strip(" |").split(" | ")[1:] for line in lines}
    assert cells["calls"] == ["11", "3"]
    every = "all: answers / errors in time / late / neither"
    assert cells[every] == ["3 / 3 / 2 / 3", "3 / 0 / 0 / 0"]
    assert cells["of servers without the fault"] == ["2 / 1 / 1 / 0", "1 / 0 / 0 / 0"]
    assert cells["hung: its server; others"][0] == "1 / 2 / 1 / 3; 2 / 1 / 0 / 0"
    assert cells["killed: its server; others"][0] == "0 / 0 / 0 / 0; 0 / 0 / 1 / 0"
    assert cells["changes of definitions shown as held"] == ["not offered", "4"]
    assert cells["left at the end: processes, connections, tasks"] == ["1, 2, 3", "0, 0, 0"]
    (restarts,) = (cells[name] for name in cells if name.startswith("servers without an answer"))
    assert restarts == ["1 of 4", "0 of 0"]

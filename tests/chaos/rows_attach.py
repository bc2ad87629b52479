"""Attached servers that are killed, hang, answer garbage, forget sessions and change: 1,020 calls over five of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from searchbus_bus import Bus, connect
from searchbus_contracts import Actor
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_testing import until

from .attach_faults import ROW, SHORT, Findings, Limits, inject
from .client import Client, counts
from .faulty import FaultyServers
from .fleet import READY_S, Fleet
from .left import Left, left_of
from .scorecard import Measurement, at_least, at_most
from .watched import holdings

OPERATOR = Actor(subject="chaos", roles=("*",))
NAME = "attached"


def qualified(server: str, tool: str) -> str:
    """The name of a server's tool on /mcp."""
    return f"{server}__{tool}"


@dataclass(frozen=True, slots=True)
class Run:
    """What a gateway did with the faults.

    Args:
        twice: calls that were done twice, of a tool that may not be repeated.
        held: changes of definitions that were shown as held; None at a gateway that does not
            compare definitions.
        left: of removed servers.
    """

    found: Findings
    twice: int
    held: int | None
    left: Left


async def attached(folder: Path, *, short: bool) -> list[Measurement]:
    """Each fault at each of five servers, in turn, while all of them are called."""
    run = await at_searchbus(folder, SHORT if short else ROW, short=short)
    found = run.found
    outcomes = [outcome for _, _, outcome in found.outcomes]
    others = found.others()
    changes = 2 if short else 10
    return [
        at_most(NAME, f"silent, late, untyped or wrong of {len(outcomes)} calls of five servers",
                counts(outcomes)["broken"], 0),
        at_most(NAME, f"failed of {len(others)} calls of the servers without the fault",
                counts(others)["failed"], 0),
        at_most(NAME, "their p99 / that without faults", found.others_p99_ratio, 2, "x"),
        at_most(NAME, "servers that do not answer after a fault", len(found.lost), 0),
        at_most(NAME, "calls done twice, of a tool that may not be repeated", run.twice, 0),
        at_least(NAME, f"of {changes} changes shown as held", run.held or 0, changes),
        at_most(NAME, "longest time without answers after a fault",
                max((seconds for _, seconds in found.again_s), default=0.0), 15, "s"),
        at_most(NAME, "processes, connections and tasks left of removed servers", run.left.total, 0),
    ]  # fmt: skip


async def at_searchbus(folder: Path, limits: Limits, *, short: bool) -> Run:
    """Give the faults to servers that are attached."""
    file, report = folder / "attach.toml", folder / "held.json"
    # A server that hangs is given up after the deadline of its calls and that of a ping.
    given = {"call_timeout_s": limits.deadline_s, "ping_timeout_s": 1.0, "policy": "hold"}
    async with Fleet(folder) as fleet:
        with FaultyServers(folder / "servers") as servers:
            file.write_text("")
            service = fleet.start(
                "tests.chaos.watched", str(report), "searchbus_runtime", "attach",
                attach_file=file, data_dir=folder, attach_poll_s=1,
            )  # fmt: skip
            await fleet.edge()
            bus = await connect(fleet.nats_url, name="chaos-attach")
            try:
                await status_of(bus)
                before = await _tasks(service.pid, report)
                file.write_text(toml({name: keys | given for name, keys in servers.keys().items()}))
                for name in servers.names:
                    await fleet.ready(qualified(name, "echo"))
                held: list[str] = []

                async def look(name: str, fault: str) -> None:
                    if fault in ("list", "description"):
                        await until(lambda: _holds(bus, name), timeout_s=READY_S)
                        held.append(name)

                async with Client(fleet.ports, short=short, give_up_s=limits.give_up_s) as client:
                    found = await inject(
                        client, servers, qualified,
                        limits=limits, short=short, while_it_lasts=look,
                    )  # fmt: skip
                file.write_text("")
                await until(lambda: _all_removed(bus), timeout_s=READY_S)
                left = await left_of(
                    service.pid, report, servers.ports,
                    tasks_before=before, settle_s=limits.settle_s,
                )  # fmt: skip
            finally:
                await bus.close()
            return Run(found, servers.done_twice(), len(held), left)


def toml(servers: dict[str, dict[str, Any]]) -> str:
    """A file of servers."""
    lines: list[str] = []
    for name, keys in servers.items():
        lines += [f"[servers.{name}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


async def status_of(bus: Bus) -> StatusReply:
    """The servers' states, as soon as the service answers."""
    found: list[StatusReply] = []

    async def asked() -> bool:
        try:
            found.append(await bus.request(
                bus.subjects.endpoint("attach", "status"), StatusRequest(), StatusReply,
                service="attach", timeout_s=10, actor=OPERATOR,
            ))  # fmt: skip
        except Exception:
            return False
        return True

    await until(asked, timeout_s=READY_S, interval_s=0.2)
    return found[-1]


async def _holds(bus: Bus, name: str) -> bool:
    """Whether a server's changes are shown as held."""
    return any(server.held for server in (await status_of(bus)).servers if server.name == name)


async def _all_removed(bus: Bus) -> bool:
    return not (await status_of(bus)).servers


async def _tasks(pid: int, report: Path) -> int:
    """Tasks of the service, as soon as it follows its file."""
    found: dict[str, int] = {}

    async def follows() -> bool:
        nonlocal found
        found = (await holdings(pid, report))["tasks"]
        return "Gateway._look" in found

    await until(follows, timeout_s=READY_S, interval_s=0.5)
    return sum(found.values())

"""Attached servers that are killed, hang, answer garbage, forget sessions and change: 1,020 calls over five of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil

from searchbus_bus import Bus, connect
from searchbus_contracts import Actor
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_testing import until

from .attach_faults import DEADLINE_S, inject
from .client import Client, counts
from .faulty import FaultyServers
from .fleet import READY_S, Fleet
from .scorecard import Measurement, at_least, at_most
from .watched import holdings

__all__ = ["attached", "qualified"]

OPERATOR = Actor(subject="chaos", roles=("*",))
LIMITS = {
    "call_timeout_s": DEADLINE_S,
    "ping_timeout_s": 1.0,
    "start_timeout_s": 5.0,
    "policy": "hold",
}
"""Keys of each server; a hung one is given up after its calls' deadline and that of a ping."""
ROW = "attached"


def qualified(server: str, tool: str) -> str:
    """The name of a server's tool on /mcp."""
    return f"{server}__{tool}"


async def attached(folder: Path, *, short: bool) -> list[Measurement]:
    """Each fault at each of five servers, in turn, while all of them are called."""
    file, report = folder / "attach.toml", folder / "attach.held.json"
    async with Fleet(folder) as fleet:
        with FaultyServers(folder / "servers") as servers:
            file.write_text("")
            worker = fleet.start(
                "tests.chaos.watched", str(report), "searchbus_attach",
                attach_file=file, data_dir=folder, attach_poll_s=1,
            )  # fmt: skip
            await fleet.edge()
            bus = await connect(fleet.nats_url, name="chaos-attach")
            try:
                await _status(bus)
                before = await holdings(worker.pid, report)
                file.write_text(_toml(servers.keys()))
                for name in servers.names:
                    await fleet.ready(qualified(name, "echo"))
                shown: set[str] = set()

                async def look(name: str, fault: str) -> None:
                    if fault in ("list", "description"):
                        await until(lambda: _holds(bus, name), timeout_s=READY_S,
                                    message=lambda: f"{name} {fault} {fleet.log[-4000:]}")  # fmt: skip
                        shown.add(f"{name} {fault}")

                async with Client(fleet.ports, short=short) as client:
                    found = await inject(
                        client, servers, qualified,
                        patience_s=READY_S, short=short, while_it_lasts=look,
                    )  # fmt: skip
                left = await _left(bus, fleet, file, worker.pid, servers)
                after = await holdings(worker.pid, report)
            finally:
                await bus.close()
            twice = servers.done_twice()
    outcomes = [outcome for _, _, outcome in found.outcomes]
    changes = 2 if short else 2 * len(servers.names)
    tasks = sum(after["tasks"].values()) - sum(before["tasks"].values())
    return [
        at_most(ROW, f"silent, late, untyped or wrong of {len(outcomes)} calls, 6 faults of 5 servers",
                counts(outcomes)["broken"], 0),
        at_most(ROW, f"failed of {len(found.others())} calls of the servers without the fault",
                counts(found.others())["failed"], 0),
        at_most(ROW, "their p99 / before the faults", found.others_p99_ratio, 2, "x"),
        at_most(ROW, "servers that do not answer after a fault", len(found.lost), 0),
        at_most(ROW, "calls done twice, of a tool that may not be repeated", twice, 0),
        at_least(ROW, f"of {changes} changes shown as held", len(shown), changes),
        at_most(ROW, "longest time without answers after a fault",
                max(seconds for _, seconds in found.again_s), 15, "s"),
        at_most(ROW, "processes, connections and tasks left of removed servers", left + tasks, 0),
    ]  # fmt: skip


def _toml(servers: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for name, keys in servers.items():
        lines += [f"[servers.{name}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in {**keys, **LIMITS}.items()]
    return "\n".join(lines) + "\n"


async def _status(bus: Bus) -> StatusReply:
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
    return any(server.held for server in (await _status(bus)).servers if server.name == name)


async def _left(bus: Bus, fleet: Fleet, file: Path, pid: int, servers: FaultyServers) -> int:
    """Processes and connections that the service has of servers once all are removed."""
    at_addresses = {int(keys["url"].rsplit(":", 1)[1].partition("/")[0])
                    for keys in servers.keys().values() if "url" in keys}  # fmt: skip
    file.write_text("")

    def left() -> int:
        process = psutil.Process(pid)
        connections = [
            c for c in process.net_connections("tcp") if c.raddr and c.raddr.port in at_addresses
        ]
        return len(process.children(recursive=True)) + len(connections)

    async def removed() -> bool:
        return not (await _status(bus)).servers

    await until(removed, timeout_s=READY_S)
    for _ in range(100):
        if not left():
            break
        await asyncio.sleep(0.1)
    return left()

"""The faults of attached servers in turn, under load, at whatever gateway is in front of them.

found = await inject(client, servers, name_of="{}__{}".format, patience_s=300)
found.outcomes, found.others_p99_ratio
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .client import Client, Outcome
from .faulty import FAULTS, FaultyServers

__all__ = ["CALLS", "DEADLINE_S", "Findings", "inject"]

DEADLINE_S = {"normal": 3.0, "short": 15.0}
"""Of a call; the short form also runs on busy machines."""
CALLS = 34
"""During one fault of one server, over all five; 30 of these are 1,020 calls."""
_SECONDS = {"hung": 6.0}
"""Two deadlines: the second half of the calls meets a server that is known to hang."""
_OTHERWISE_S = 2.0
_AGAIN_S = 0.1


@dataclass
class Findings:
    """What became of the calls.

    Attributes:
        outcomes: (fault, whether of the server that has it, outcome) of all calls.
        before_s: times of the calls before the first fault.
        again_s: from the end of a fault to the next answer, each (fault, seconds).
        lost: servers that did not answer again in time.
    """

    outcomes: list[tuple[str, bool, Outcome]] = field(default_factory=list)
    before_s: list[float] = field(default_factory=list)
    again_s: list[tuple[str, float]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def others(self) -> list[Outcome]:
        """Calls of servers while another one had a fault."""
        return [outcome for _, own, outcome in self.outcomes if not own]

    @property
    def others_p99_ratio(self) -> float:
        """Their p99, in multiples of that before the faults."""
        return _p99([outcome.took_s for outcome in self.others()]) / _p99(self.before_s)


async def inject(
    client: Client,
    servers: FaultyServers,
    name_of: Callable[[str, str], str],
    *,
    patience_s: float,
    deadline_s: float,
    short: bool = False,
    while_it_lasts: Callable[[str, str], Awaitable[None]] | None = None,
) -> Findings:
    """Call all servers evenly while each has each fault in turn.

    Args:
        name_of: server and tool → the tool's name at the gateway.
        deadline_s: of each call.
        patience_s: for the first answer after a fault.
        short: each fault at one server only.
        while_it_lasts: awaited with server and fault before that ends.
    """
    found = Findings()

    async def load(seconds: float) -> list[tuple[str, Outcome]]:
        started_s = time.monotonic()
        tasks = []
        for number in range(CALLS):
            at_s = started_s + number * seconds / CALLS
            await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            name = servers.names[number % len(servers.names)]
            tool = ("echo", "note")[number // len(servers.names) % 2]
            tasks.append((name, asyncio.create_task(
                client.echo(name_of(name, tool), deadline_s=deadline_s)
            )))  # fmt: skip
        return [(name, await task) for name, task in tasks]

    async def answers(name: str) -> bool:
        outcome = await client.echo(name_of(name, "echo"), deadline_s=deadline_s)
        return outcome.kind == "answer"

    await load(_OTHERWISE_S)  # warms up
    for _ in range(1 if short else 5):
        found.before_s += [outcome.took_s for _, outcome in await load(_OTHERWISE_S)]
    for number, fault in enumerate(FAULTS):
        chosen = servers.names
        for name in (chosen[number % len(chosen)],) if short else chosen:
            servers[name].begin(fault)
            for called, outcome in await load(_SECONDS.get(fault, _OTHERWISE_S)):
                found.outcomes.append((fault, called == name, outcome))
            if while_it_lasts is not None:
                await while_it_lasts(name, fault)
            servers[name].end(fault)
            ended_s = time.monotonic()
            while not await answers(name):
                if time.monotonic() - ended_s > patience_s:
                    found.lost.append(f"{name} after {fault}")
                    break
                await asyncio.sleep(_AGAIN_S)
            else:
                found.again_s.append((fault, time.monotonic() - ended_s))
    return found


def _p99(times_s: list[float]) -> float:
    return sorted(times_s)[int(len(times_s) * 0.99)]

"""The faults of attached servers in turn, under load, at whatever gateway is in front of them.

found = await inject(client, servers, name_of="{}__{}".format, limits=ROW)
found.outcomes, found.others_p99_ratio
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .client import GIVE_UP_S, Client, Outcome
from .faulty import FAULTS, FaultyServers
from .fleet import READY_S


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited.

    Args:
        deadline_s: of each call.
        give_up_s: for an answer after the deadline.
        patience_s: for a server's first answer after its fault.
        settle_s: for processes, connections and tasks to end.
    """

    deadline_s: float
    give_up_s: float = GIVE_UP_S
    patience_s: float = READY_S
    settle_s: float = 60.0


ROW = Limits(deadline_s=3.0)
SHORT = Limits(deadline_s=15.0)
"""Also for busy machines."""
COMPARED = Limits(deadline_s=3.0, give_up_s=1.0, patience_s=5.0, settle_s=15.0)
"""Ends in minutes, whatever the gateway does."""
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
        quiet_s: times of calls while no server has a fault: before each kind of fault.
        again_s: from the end of a fault to the next answer, each (fault, seconds).
        lost: servers that did not answer again in time.
    """

    outcomes: list[tuple[str, bool, Outcome]] = field(default_factory=list)
    quiet_s: list[float] = field(default_factory=list)
    again_s: list[tuple[str, float]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def others(self) -> list[Outcome]:
        """Calls of servers while another one had a fault."""
        return [outcome for _, own, outcome in self.outcomes if not own]

    @property
    def others_p99_ratio(self) -> float:
        """Their p99, in multiples of that without faults."""
        return self.others_p99_s / self.quiet_p99_s

    @property
    def others_p99_s(self) -> float:
        """Of their calls, also of those that failed."""
        return _p99([outcome.took_s for outcome in self.others()])

    @property
    def quiet_p99_s(self) -> float:
        """Of the calls while no server had a fault."""
        return _p99(self.quiet_s)


async def inject(
    client: Client,
    servers: FaultyServers,
    name_of: Callable[[str, str], str],
    *,
    limits: Limits,
    short: bool = False,
    while_it_lasts: Callable[[str, str], Awaitable[None]] | None = None,
    restart: Callable[[], Awaitable[None]] | None = None,
) -> Findings:
    """Call all servers evenly while each has each fault in turn.

    Args:
        name_of: server and tool → the tool's name at the gateway.
        short: each fault at one server only.
        while_it_lasts: awaited with server and fault before that ends.
        restart: of the gateway, where a server does not answer again in time.
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
                client.echo(name_of(name, tool), deadline_s=limits.deadline_s)
            )))  # fmt: skip
        return [(name, await task) for name, task in tasks]

    async def answers(name: str) -> bool:
        outcome = await client.echo(name_of(name, "echo"), deadline_s=limits.deadline_s)
        return outcome.kind == "answer"

    await load(_OTHERWISE_S)  # warms up
    for number, fault in enumerate(FAULTS):
        if not (short and number):
            # Over the whole run, so that another load of the machine is in both measurements.
            found.quiet_s += [outcome.took_s for _, outcome in await load(_OTHERWISE_S)]
        chosen = servers.names
        for name in (chosen[number % len(chosen)],) if short else chosen:
            servers[name].begin(fault)
            outcomes = await load(_SECONDS.get(fault, _OTHERWISE_S))
            found.outcomes += [(fault, called == name, outcome) for called, outcome in outcomes]
            if while_it_lasts is not None:
                await while_it_lasts(name, fault)
            servers[name].end(fault)
            ended_s = time.monotonic()
            # A gateway that answered no call at all is restarted at once.
            works = restart is None or any(outcome.kind == "answer" for _, outcome in outcomes)
            while not (works and await answers(name)):
                if not works or time.monotonic() - ended_s > limits.patience_s:
                    found.lost.append(f"{name} after {fault}")
                    if restart is not None:
                        await restart()
                    break
                await asyncio.sleep(_AGAIN_S)
            else:
                found.again_s.append((fault, time.monotonic() - ended_s))
    return found


def _p99(times_s: list[float]) -> float:
    return sorted(times_s)[int(len(times_s) * 0.99)]

"""Workers start, change, stop and crash in any order, and messages get lost: the view is right.

A failing example is printed by hypothesis as a program that replays it.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    rule,
    run_state_machine_as_test,
)

from searchbus_bus import Directory, MemoryBroker, Serving, Worker
from searchbus_bus.transport import Message
from searchbus_contracts import ToolDescriptor, ToolReply

from .seeds import quick_steps, slow_steps
from .world import VirtualLoop, virtual_time

SERVICES = ("alpha", "beta", "gamma")
EVENTS, DISCOVERY = ".evt.catalog.", "$SRV.INFO"


class LossyBroker(MemoryBroker):
    """Loses a share of the messages whose subject contains one of some texts."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: tuple[str, ...] = ()
        self.random = random.Random(0)

    def route(self, message: Message) -> None:
        if any(text in message.subject for text in self.lost) and self.random.random() < 0.7:
            return
        super().route(message)


async def reply(call, request) -> ToolReply:
    return ToolReply()


def described(service: str, number: int) -> ToolDescriptor:
    return ToolDescriptor(
        name=f"t{number}", toolset=service, description="d", input_schema={"type": "object"}
    )


class Discovery(RuleBasedStateMachine):
    """The workers that run, and a directory that follows them."""

    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.broker = LossyBroker()
        self.alive: dict[tuple[str, str], Serving] = {}
        self.tools = 0
        self.directory = Directory(self.broker.connect(), refresh_s=3600, lost_grace_s=3600)
        self.run(self.directory.start())

    def run(self, work):
        with virtual_time(self.loop):
            return self.loop.run_until_complete(work)

    async def settled(self) -> None:
        """Let everything that was sent arrive."""
        for _ in range(200):
            await asyncio.sleep(0)

    @rule(target=running, service=st.sampled_from(SERVICES))
    def start(self, service: str):
        worker = Worker(service)
        worker.add_tool(described(service, 0), reply)
        serving = self.run(self.broker.connect().serve(worker))
        key = (service, serving.instance)
        self.alive[key] = serving
        self.run(self.settled())
        return key

    @rule(key=running)
    def change(self, key) -> None:
        if key in self.alive:
            self.tools += 1
            self.alive[key].worker.add_tool(described(key[0], self.tools), reply)
            self.run(self.alive[key].refresh())
            self.run(self.settled())

    @rule(key=consumes(running))
    def stop(self, key) -> None:
        if serving := self.alive.pop(key, None):
            self.run(serving.drain(0.0))
            self.run(self.settled())

    @rule(key=consumes(running))
    def crash(self, key) -> None:
        if serving := self.alive.pop(key, None):
            self.run(serving._transport.close())

    @rule(lost=st.sampled_from([(), (EVENTS,), (DISCOVERY,), (EVENTS, DISCOVERY)]))
    def lose(self, lost: tuple[str, ...]) -> None:
        self.broker.lost = lost

    @rule()
    def look(self) -> None:
        """Run a round. Whoever is known and answers pings stays, whatever else is lost."""
        known = self.directory.instances.keys() & self.alive.keys()
        self.run(self._round())
        assert known <= self.directory.instances.keys()

    async def _round(self) -> None:
        await self.directory.refresh()
        if self.directory._probing is not None:
            await self.directory._probing

    def teardown(self) -> None:
        """Once messages arrive again, one round finds the truth."""
        self.broker.lost = ()
        self.run(self._round())
        self.run(self._round())
        try:
            assert self.directory.instances.keys() == self.alive.keys()
            for service in {service for service, _ in self.alive}:
                newest = max(
                    (int(s._record.metadata["started_ms"]), instance, s)
                    for (name, instance), s in self.alive.items()
                    if name == service
                )[2]
                (catalog,) = [c for c in self.directory.catalogs if c.service == service]
                assert catalog == newest._offered.catalog
                assert self.directory.owner(service) == service
                assert self.directory.absence(service) is None
        finally:
            self.run(self._close())
            self.loop.close()

    async def _close(self) -> None:
        await self.directory.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_discovery():
    """A few runs."""
    run_state_machine_as_test(Discovery, settings=quick_steps)


@pytest.mark.slow
def test_discovery_for_long():
    """Many runs of many steps."""
    run_state_machine_as_test(Discovery, settings=slow_steps)

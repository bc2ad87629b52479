"""A worker's subjects: in the queue group, at its instance, on standby."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.worker.intake import Membership
from searchbus_testing import until


class Part:
    """A membership, and what it received."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.received: list[tuple[str, str]] = []
        self.endpoints: list[dict[str, object]] = []
        worker = Worker("words")
        self.bus = self.broker.connect()
        self.membership = Membership(worker, self.bus.transport, self._receive, self.endpoints)

    def _receive(self, message, handler) -> None:
        self.received.append((message.subject, handler))

    async def send(self, *subjects: str) -> list[tuple[str, str]]:
        """What is received of one message to each subject, and to one that is always served."""
        self.received.clear()
        for subject in (*subjects, "end"):
            await self.bus.transport.publish(subject, b"")
        await until(lambda: ("end", "end") in self.received)
        return [found for found in self.received if found != ("end", "end")]


@pytest.fixture
async def part():
    made = Part()
    await made.membership.add("end", "end", stays=True)
    yield made
    await made.bus.close()


async def test_standby_keeps_only_what_stays(part):
    """What is added meanwhile is served after the worker joined again."""
    await part.membership.add("a", "A")
    await part.membership.receive_own(lambda subject: f"at.{subject}")
    assert sorted(await part.send("a", "at.a", "at.end")) == [("a", "A"), ("at.a", "A")]
    await part.membership.leave()
    await part.membership.add("b", "B")
    assert await part.send("a", "at.a", "b", "at.b") == []
    await part.membership.join()
    await part.membership.join()
    found = await part.send("a", "at.a", "b", "at.b")
    assert sorted(found) == [("a", "A"), ("at.a", "A"), ("at.b", "B"), ("b", "B")]


async def test_removed_subject_is_not_served_and_not_listed(part):
    """Nor does it come back with the others."""
    await part.membership.add("a", "A")
    await part.membership.add("a", "A")
    assert [endpoint["subject"] for endpoint in part.endpoints] == ["end", "a"]
    await part.membership.remove("a")
    await part.membership.leave()
    await part.membership.join()
    assert await part.send("a") == []
    assert [endpoint["subject"] for endpoint in part.endpoints] == ["end"]


async def test_end_leaves_everything(part):
    """Also what stays."""
    await part.membership.add("a", "A")
    await part.membership.end()
    await part.membership.join()
    assert part.broker.subscriptions == set()

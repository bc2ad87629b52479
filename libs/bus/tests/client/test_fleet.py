"""Which instances answer."""

from __future__ import annotations

import asyncio
import time

import pytest

from searchbus_bus.client import fleet
from searchbus_bus.client.fleet import Fleet, State
from searchbus_testing import until


class Instances:
    """The states that pings find."""

    def __init__(self, **states):
        self.states = states
        self.pings = 0

    async def ping(self, service, instance, timeout_s):
        self.pings += 1
        await asyncio.sleep(0)
        return self.states[instance]

    async def look(self, service):
        return list(self.states)


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(fleet, "PING_AGAIN_S", 0.01)


def following(**states):
    instances = Instances(**states)
    found = Fleet(instances.ping, instances.look)
    found.follow("echo", states)
    return found, instances


def usable(found, **options):
    """The instance to ask where one does not answer; None: the queue group is asked."""
    return found.pick("echo", **options) if found.avoids("echo") else None


async def test_a_silent_instance_is_avoided_until_it_answers():
    """Without one, the queue group is asked."""
    found, instances = following(a=State.ALIVE, b=State.SILENT)
    assert usable(found) is None
    assert await found.probe("echo") == {State.ALIVE, State.SILENT}
    assert usable(found) == found.pick("echo") == "a"
    assert usable(found, avoid={"a"}) is None
    instances.states["b"] = State.ALIVE
    await until(lambda: usable(found) is None)
    assert found.pick("echo", avoid={"a"}) == "b"


async def test_a_service_is_silent_while_none_of_its_instances_answers():
    """Also one that discovery does not list any more."""
    found, instances = following(a=State.SILENT, b=State.ALIVE)
    await found.probe("echo")
    assert not found.is_silent("echo")
    instances.states["b"] = State.SILENT
    await found.probe("echo")
    assert found.is_silent("echo")
    found.follow("echo", [])
    assert found.is_silent("echo")
    instances.states |= dict.fromkeys("ab", State.ALIVE)
    await until(lambda: not found.is_silent("echo"))


async def test_silence_before_a_lost_connection_says_nothing():
    """It may have been that of the server; who still does not answer is found anew."""
    found, _ = following(a=State.ALIVE, b=State.SILENT)
    await found.probe("echo")
    assert found.avoids("echo")
    found.forget_silence()
    assert not found.avoids("echo")
    assert {found.pick("echo") for _ in range(100)} == {"a", "b"}
    await found.probe("echo")
    assert usable(found) == "a"
    await found.close()


async def test_an_instance_that_is_gone_is_forgotten():
    """Until discovery finds it again."""
    found, _ = following(a=State.GONE)
    assert await found.check("echo", "a") is State.GONE
    assert found.pick("echo") is None
    found.follow("echo", ["a"])
    assert found.pick("echo") == "a"


async def test_checks_at_the_same_time_share_a_ping():
    """However many requests wait for one instance."""
    found, instances = following(a=State.ALIVE)
    await asyncio.gather(*(found.check("echo", "a") for _ in range(100)))
    assert instances.pings == 1


async def test_an_instance_on_standby_is_left_out_for_a_while(monkeypatch):
    """It has no subscription of its own."""
    found, _ = following(a=State.ALIVE)
    found.absent("a")
    assert found.pick("echo") is None
    monkeypatch.setattr(fleet, "ABSENT_S", 0.0)
    found.absent("a")
    await until(lambda: found.pick("echo") == "a")


async def test_an_instance_slower_than_others_thrice_in_a_row_is_avoided():
    """A reply in between counts from the start."""
    found, _ = following(a=State.SILENT, b=State.ALIVE)
    for _ in range(fleet.STRIKES - 1):
        found.strike("echo", "a")
    found.answered("a")
    found.strike("echo", "a")
    assert usable(found) is None
    for _ in range(fleet.STRIKES - 1):
        found.strike("echo", "a")
    assert usable(found) == "b"


async def test_instances_come_from_acknowledgements_too():
    """Of a service that nobody follows."""
    found = Fleet(Instances().ping, Instances().look)
    assert found.pick("echo") is None
    found.heard("echo", "a")
    assert found.pick("echo") == "a"
    assert found.pick("echo") == "a"


async def test_pings_of_a_silent_instance_end_with_the_fleet():
    """Otherwise they would go on for ever over a closed connection."""
    found, instances = following(a=State.SILENT)
    await found.probe("echo")
    await until(lambda: instances.pings > 2)
    await found.close()
    sent = instances.pings
    await asyncio.sleep(0.03)
    assert instances.pings == sent


async def test_nothing_is_kept_of_instances_that_left(monkeypatch):
    """Workers come and go for as long as this process runs."""
    monkeypatch.setattr(fleet, "ABSENT_S", 0.0)
    found, _ = following(a=State.ALIVE, b=State.ALIVE)
    for number in range(100):
        found.follow("echo", [f"worker{number}"])
        found.strike("echo", f"worker{number}")
        found.absent(f"worker{number}")
    assert len(found._strikes) == len(found._absent_until_s) == 1


async def test_a_late_reply_brings_back_nothing_of_an_instance_that_left():
    """The race that it lost may end after discovery has removed it."""
    found, _ = following(a=State.GONE)
    found.strike("echo", "a")
    await found.check("echo", "a")
    found.strike("echo", "a")
    assert found._strikes == {}


async def test_nothing_is_kept_of_a_service_that_is_no_longer_listed():
    """Nor of the instances that it had."""
    found, _ = following(a=State.ALIVE)
    found.strike("echo", "a")
    found.forget("echo")
    assert found.pick("echo") is None
    assert found._instances == {}
    assert found._strikes == {}


async def test_an_instance_that_cannot_be_asked_is_not_picked():
    """A worker may write any id into its replies to discovery."""
    found, _ = following(**{"not a token": State.ALIVE})
    assert found.pick("echo") is None
    found.follow("echo", ["a.b", "c"])
    assert found.pick("echo") == "c"


async def test_a_machine_that_stood_still_makes_nobody_silent(monkeypatch):
    """Neither this process nor the instance ran meanwhile; it answers as soon as both do."""
    monkeypatch.setattr(fleet, "HUNG_S", 0.4)
    monkeypatch.setattr(fleet, "HUNG_EVERY_S", 0.1)
    goes_on = asyncio.Event()

    def stand_still():
        time.sleep(1)
        goes_on.set()

    async def ping(service, instance, timeout_s):
        try:
            async with asyncio.timeout(timeout_s):
                await goes_on.wait()
                await asyncio.sleep(0.01)
        except TimeoutError:
            return State.SILENT
        return State.ALIVE

    found = Fleet(ping, Instances().look)
    asyncio.get_running_loop().call_later(0.01, stand_still)
    assert await found.check("echo", "a", patient=True) is State.ALIVE

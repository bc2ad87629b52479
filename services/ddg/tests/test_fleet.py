"""Membership of the queue group."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import AsyncExitStack

import pytest

from searchbus_bus import connect
from searchbus_contracts import Fault
from searchbus_ddg.egress import Egress, egress_id
from searchbus_ddg.fleet import ScraperFleet
from searchbus_testing import until
from searchbus_upstream import Pace


class FakeServing:
    """Keeps whether the worker is in the queue group."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def step_in(self) -> None:
        self.steps.append("in")

    async def step_out(self) -> None:
        self.steps.append("out")


def member(leases, refusals, name: str, probe_succeeds: bool = True) -> tuple[ScraperFleet, Egress]:
    """A worker with a lease; its probe closes the breaker or is refused again."""
    egress = Egress(name, None, Pace(0.0))

    async def probe() -> bool:
        if egress.breaker.try_probe():
            if probe_succeeds:
                egress.breaker.succeeded()
            else:
                egress.breaker.refused(60.0)
        return egress.breaker.closed

    fleet = ScraperFleet(
        egress, egress_id(name), f"holder-{name}", leases, refusals, probe, update_every_s=0.01
    )
    return fleet, egress


async def test_refused_worker_leaves_and_joins_again_after_its_probe(leases, refusals):
    """While another address is healthy."""
    healthy, _ = member(leases, refusals, "healthy")
    refused, egress = member(leases, refusals, "refused")
    serving = FakeServing()
    async with healthy, refused:
        refused.manage(serving)
        egress.breaker.refused(0.05)
        egress.on_refused()
        await until(lambda: serving.steps == ["out", "in"])
        assert egress.breaker.closed


class Moving(FakeServing):
    """A step waits until it is told how to end."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[asyncio.Future[None]] = []

    async def _end(self) -> None:
        self.ends.append(asyncio.get_running_loop().create_future())
        await self.ends[-1]

    async def step_in(self) -> None:
        await self._end()
        await super().step_in()

    async def step_out(self) -> None:
        await self._end()
        await super().step_out()


async def refused_beside_a_healthy_one(leases, refusals) -> tuple[ScraperFleet, Moving]:
    healthy, egress = member(leases, refusals, "healthy")
    await healthy._others.start(egress.breaker)
    await healthy._lease.write()
    fleet, egress = member(leases, refusals, "refused")
    await fleet._others.start(egress.breaker)
    serving = Moving()
    fleet.manage(serving)
    egress.breaker.refused(1000.0)
    return fleet, serving


async def test_a_call_that_is_cancelled_leaves_no_worker_half_in_the_queue_group(leases, refusals):
    """The move ends without it, and no second one begins beside it."""
    fleet, serving = await refused_beside_a_healthy_one(leases, refusals)
    calls = [asyncio.create_task(fleet.leave_to_others()) for _ in range(2)]
    await until(lambda: serving.ends)
    calls[0].cancel()
    await asyncio.wait(calls[:1])
    serving.ends[0].set_result(None)
    assert await calls[1]
    assert serving.steps == ["out"]
    assert len(serving.ends) == 1


async def test_a_move_that_failed_is_made_again(leases, refusals):
    """The connection was lost in it; the worker is where it was."""
    fleet, serving = await refused_beside_a_healthy_one(leases, refusals)
    call = asyncio.create_task(fleet.leave_to_others())
    await until(lambda: serving.ends)
    serving.ends[0].set_exception(Fault("unavailable", "There is no connection to NATS."))
    with pytest.raises(Fault):
        await call
    call = asyncio.create_task(fleet.leave_to_others())
    await until(lambda: len(serving.ends) == 2)
    serving.ends[1].set_result(None)
    assert await call
    assert serving.steps == ["out"]


@pytest.mark.parametrize("size", [10, 1000])
async def test_cost_of_a_worker_does_not_grow_with_the_fleet(size, leases, refusals):
    """One request for each update; two lists of keys more while its address is refused."""
    members = [member(leases, refusals, f"w{number}") for number in range(size)]
    for fleet, egress in members:
        await fleet._others.start(egress.breaker)
        await fleet._lease.write()
    leases.requests = refusals.requests = refusals.messages = 0
    for fleet, _ in members:
        fleet._refresh_s = 0.0
        await fleet._update()
    assert (leases.requests, refusals.requests, refusals.messages) == (size, 0, 0)
    fleet, egress = members[0]
    serving = FakeServing()
    fleet.manage(serving)
    egress.breaker.refused(1000.0)
    leases.requests = 0
    assert await fleet.leave_to_others()
    assert serving.steps == ["out"]
    assert (leases.requests, refusals.requests) == (1, 2)
    # The refusal itself, to every worker once; nothing while it lasts.
    assert refusals.messages == size
    for _ in range(100):
        assert await fleet.leave_to_others()
    assert (leases.requests, refusals.requests, refusals.messages) == (1, 2, size)
    assert leases.messages == 0


async def test_six_workers_with_one_refused_leave_no_consumers_and_lose_nothing(
    own_nats_server, tmp_path
):
    """A refused worker always knows who is free, however often it looks."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    async with AsyncExitStack() as exit_:
        fleets = []
        for number in range(6):
            bus = await connect(server.url, name=f"w{number}")
            exit_.push_async_callback(bus.close)
            leases = await bus.key_value("l", ttl_s=10.0, max_bytes=2**20, timeout_s=60.0)
            refusals = await bus.key_value("r", ttl_s=3600.0, max_bytes=2**20, timeout_s=60.0)
            fleet, egress = member(leases, refusals, f"w{number}")
            fleets.append((await exit_.enter_async_context(fleet), egress))

        async def all_there() -> bool:
            return len(await leases.keys()) == 6

        await until(all_there)
        refused, egress = fleets[0]
        egress.breaker.refused(1000.0)
        await refused._others.look(younger_than_s=0)
        for _ in range(300):
            refused._others._looked_s = -math.inf
            assert await refused.leave_to_others()
        for name in ("l", "r"):
            info = await bus.transport._client.jetstream().stream_info(f"KV_sb_{name}")
            assert info.state.consumer_count == 0
        await fleets[1][0].release()
        for _, other in fleets[2:]:
            other.breaker.refused(1000.0)
            other.on_refused()

        async def nobody_is_free() -> bool:
            return not await refused.leave_to_others()

        await until(nobody_is_free)
        assert 900 < refused.remaining_s <= 1000


async def test_last_worker_stays_in_the_queue_group(leases, refusals):
    """Calls fail immediately there, with the time until the first probe."""
    one, one_egress = member(leases, refusals, "one")
    other, other_egress = member(leases, refusals, "other")
    serving = FakeServing()
    async with one, other:
        one.manage(serving)
        other_egress.breaker.refused(1000.0)
        await other.leave_to_others()
        one_egress.breaker.refused(5000.0)
        assert not await one.leave_to_others()
        assert serving.steps == []
        assert 900 < one.remaining_s <= 1000


async def test_refusal_is_known_after_a_restart(leases, refusals):
    """It outlives the lease."""
    first, egress = member(leases, refusals, "a")
    async with first:
        egress.breaker.refused(1000.0)
        await first.leave_to_others()
    assert await leases.keys() == []
    second, egress = member(leases, refusals, "a")
    async with second:
        assert not egress.breaker.closed
        assert egress.breaker.open_until_s > time.time() + 900


async def test_a_refusal_is_written_again_after_the_store_was_emptied(leases, refusals):
    """Else the others, who read who is refused, would leave the queue group to this worker."""
    fleet, egress = member(leases, refusals, "a", probe_succeeds=False)
    async with fleet:
        await until(lambda: leases._entries)
        egress.breaker.refused(1000.0)
        egress.on_refused()
        await until(lambda: refusals._entries)
        leases._entries.clear()
        refusals._entries.clear()
        await until(lambda: refusals._entries and leases._entries)


async def test_a_membership_ends_once(leases, refusals, caplog):
    """The second time the connection may be closed already."""
    caplog.set_level("INFO")
    fleet, _ = member(leases, refusals, "a")
    async with fleet:
        await until(lambda: leases._entries)
        await fleet.release()
        leases.away = refusals.away = True
    assert not leases._entries
    assert not caplog.text


async def test_a_worker_that_leaves_goes_on_until_the_next_one_serves(
    leases, refusals, monkeypatch
):
    """Where one on standby took its lease at once: no call finds no worker."""
    monkeypatch.setattr("searchbus_ddg.fleet._TAKEN_S", 0.0)
    monkeypatch.setattr("searchbus_ddg.fleet._SERVES_S", 3600.0)
    first, _ = member(leases, refusals, "a")
    second, _ = member(leases, refusals, "a")

    def take(key, value):
        if value is None:
            leases._write(key, second._lease.value)

    async with first:
        first.manage(FakeServing())
        await until(lambda: leases._entries)
        await leases.watch(take)
        leaving = asyncio.create_task(first.release())
        await until(lambda: refusals._entries)
        async with second:
            await leases.unwatch(take)
            await second._update()
            assert refusals._entries
            assert not leaving.done()
            second.manage(FakeServing())
            await leaving
            assert not refusals._entries


async def test_release_leaves_another_workers_lease(leases, refusals):
    """A worker that was cut off does not delete the lease of its successor."""
    fleet, _ = member(leases, refusals, "a")
    serving = FakeServing()
    async with fleet:
        fleet.manage(serving)
        await leases.put(egress_id("a"), b"successor")
        await until(lambda: serving.steps == ["out"])
    assert await leases.keys() == [egress_id("a")]


async def test_store_that_is_away_does_not_stop_the_worker(leases, refusals):
    """It stays in the queue group."""
    fleet, egress = member(leases, refusals, "a", probe_succeeds=False)
    serving = FakeServing()
    async with fleet:
        fleet.manage(serving)
        leases.away = refusals.away = True
        egress.breaker.refused(1000.0)
        assert await fleet.leave_to_others() is None
        assert serving.steps == []
        leases.away = refusals.away = False


async def test_a_store_that_does_not_answer_in_time_does_not_say_that_nobody_is_there(
    leases, refusals, monkeypatch
):
    """As while it elects a leader; a request is not kept waiting for it."""
    fleet, egress = member(leases, refusals, "a", probe_succeeds=False)
    await fleet._others.start(egress.breaker)
    egress.breaker.refused(1000.0)
    assert await fleet.leave_to_others() is False
    elected = asyncio.Event()
    keys = leases.keys

    async def keys_later() -> list[str]:
        await elected.wait()
        return await keys()

    monkeypatch.setattr(leases, "keys", keys_later)
    fleet._others._looked_s = -math.inf
    assert await fleet.leave_to_others() is None
    elected.set()

    async def knows() -> bool:
        return await fleet.leave_to_others() is False

    await until(knows)

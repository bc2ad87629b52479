"""Several whole workers against the fake DuckDuckGo: refused addresses, pace, leases."""

from __future__ import annotations

import asyncio
import random

import pytest

from searchbus_contracts import Fault
from searchbus_ddg import egress, service
from searchbus_testing import until

ONLY = {"ddg_egress": ("bind:127.0.0.31",)}
"""One address for all workers."""


async def test_hundred_equal_queries_over_four_workers_cost_one_request(fleet):
    """At the same time; later ones are served from the cache."""
    assert await _requests_for_equal_queries(fleet) == 1


async def test_hundred_equal_queries_over_nats_cost_at_most_one_request_a_worker(nats_fleet):
    """One in all, but for a worker whose store answers late: it asks by itself."""
    assert await _requests_for_equal_queries(nats_fleet) in range(1, 5)


async def _requests_for_equal_queries(fleet) -> int:
    for _ in range(4):
        await fleet.start_worker()
    fleet.fake.latency_s = 0.3
    texts = await asyncio.gather(*(fleet.search("cats", caller=f"c{i}") for i in range(100)))
    assert len(set(texts)) == 1
    sent = len(fleet.fake.requests)
    await fleet.search("cats", max_results=3)
    assert len(fleet.fake.requests) == sent
    return sent


async def test_query_that_always_gets_an_empty_page_does_not_cool_the_fleet(fleet):
    """It is sent twice in all, however often a caller repeats it; other queries go on."""
    for _ in range(3):
        await fleet.start_worker(ddg_suspicion_rest_s=0.2, ddg_cache_ttl_s=0.0)
    for number in range(20):
        with pytest.raises(Fault) as caught:
            await fleet.search("empty202")
        assert caught.value.code == "upstream_blocked"
        assert caught.value.failure.retry_after_ms > 0
        assert "10 results" in await fleet.search(f"cats {number}")
    sent = [address for _, address, query in fleet.fake.requests if query == "empty202"]
    assert len(sent) == len(set(sent)) == 2


async def test_many_queries_with_empty_pages_leave_the_addresses_in_use(fleet):
    """The probe that followed the first one showed that the addresses are not refused."""
    for _ in range(3):
        await fleet.start_worker(ddg_suspicion_rest_s=0.05, ddg_cache_ttl_s=0.0)
    for number in range(12):
        with pytest.raises(Fault):
            await fleet.search(f"empty202 {number}")
        await until(lambda: _succeeds(fleet, f"cats {number}"))  # noqa: B023  (awaited here)
    probes = [address for _, address, query in fleet.fake.requests if query == "duckduckgo"]
    assert len(probes) == len(set(probes))


async def _succeeds(fleet, query: str) -> bool:
    """Not while all addresses are suspected, which takes a moment."""
    try:
        return "10 results" in await fleet.search(query)
    except Fault as fault:
        assert fault.code == "upstream_blocked"
        assert (fault.failure.retry_after_ms or 0) <= 1000
        return False


async def test_address_that_gets_only_empty_pages_is_refused(fleet):
    """The probe gets one as well: the cooldown is that of a challenge."""
    for _ in range(2):
        await fleet.start_worker(ddg_suspicion_rest_s=0.05, ddg_cache_ttl_s=0.0)
    fleet.fake.emptied = {"127.0.0.31"}
    number = 0
    while not _sent_through(fleet, "127.0.0.31", probes=False):  # the queue picks by chance
        assert "10 results" in await fleet.search(f"cats {(number := number + 1)}")
    await until(lambda: _sent_through(fleet, "127.0.0.31") == ["duckduckgo"])
    known = len(_sent_through(fleet, "127.0.0.31", probes=False))
    for number in range(12):
        assert "10 results" in await fleet.search(f"dogs {number}")
    assert len(_sent_through(fleet, "127.0.0.31", probes=False)) == known == 1


def _sent_through(fleet, address: str, *, probes: bool = True) -> list[str]:
    """The probes, or the other queries, of an address."""
    return [
        query
        for _, source, query in fleet.fake.requests
        if source == address and (query == "duckduckgo") == probes
    ]


async def test_challenged_query_is_sent_once_more(fleet):
    """It is not tried at every address."""
    for _ in range(4):
        await fleet.start_worker(ddg_cache_ttl_s=0.0)
    fleet.fake.blocked = {f"127.0.0.{number}" for number in range(31, 39)}
    with pytest.raises(Fault) as caught:
        await fleet.search("cats")
    assert caught.value.code == "upstream_blocked"
    assert fleet.fake.challenges == 2


async def test_one_blocked_address_fails_no_call_and_rejoins(nats_fleet):
    """The others carry the load; after the cooldown a probe brings it back."""
    fleet = nats_fleet
    for _ in range(3):
        await fleet.start_worker(ddg_challenge_rest_s=1.0, ddg_cache_ttl_s=0.0)
    fleet.fake.blocked = {"127.0.0.32"}
    for number in range(30):
        assert "Source: DuckDuckGo (10 results)" in await fleet.search(f"cats {number}")
    refused = fleet.fake.challenges
    assert 1 <= refused <= 6  # in half a minute: 1, 2, 4, 8, 16 s between
    fleet.fake.blocked = set()
    await asyncio.sleep(0)
    await until(
        lambda: fleet.fake.requests[-1][2] == "duckduckgo" or requests_of(fleet, "127.0.0.32", 3)
    )
    start = len(fleet.fake.requests)
    for number in range(300):
        await fleet.search(f"dogs {number}")
        if any(address == "127.0.0.32" for _, address, _ in fleet.fake.requests[start:]):
            break
        await asyncio.sleep(0.02)
    assert any(address == "127.0.0.32" for _, address, _ in fleet.fake.requests[start:])


async def test_a_refused_worker_passes_requests_on_while_the_store_is_away(fleet, monkeypatch):
    """Nobody knows then who is healthy: the others are asked."""
    # A request may come back to the same worker by chance: eight times in one of 500 searches.
    monkeypatch.setattr("searchbus_ddg.duckduckgo._MAX_HOPS", 60)
    for _ in range(2):
        await fleet.start_worker(ddg_cache_ttl_s=0.0)
    for bucket in fleet.bus.transport.broker.buckets.values():
        bucket.away = True
    fleet.fake.blocked = {"127.0.0.31"}
    for number in range(30):
        assert "10 results" in await fleet.search(f"cats {number}")
    assert fleet.fake.challenges == 1


async def test_the_only_worker_says_that_it_is_refused_while_the_store_is_away(fleet):
    """A request that it passes on comes back to it, a few times."""
    await fleet.start_worker(ddg_cache_ttl_s=0.0)
    for bucket in fleet.bus.transport.broker.buckets.values():
        bucket.away = True
    fleet.fake.blocked = {"127.0.0.31"}
    for number in range(3):
        with pytest.raises(Fault) as caught:
            await fleet.search(f"cats {number}")
        assert caught.value.code == "upstream_blocked"
        assert caught.value.failure.retry_after_ms
    assert fleet.fake.challenges == 1


def requests_of(fleet, address: str, times: int) -> bool:
    return sum(a == address for _, a, _ in fleet.fake.requests) >= times


async def test_all_blocked_fails_immediately_with_the_time_left(fleet):
    """Neither a timeout nor `unavailable`, also for later calls."""
    for _ in range(3):
        await fleet.start_worker(ddg_challenge_rest_s=600.0)
    fleet.fake.blocked = {f"127.0.0.{n}" for n in range(31, 39)}
    for number in range(12):
        with pytest.raises(Fault) as caught:
            await fleet.search(f"cats {number}")
        assert caught.value.code == "upstream_blocked", caught.value
        assert 500_000 < caught.value.failure.retry_after_ms <= 601_000
        await asyncio.sleep(0.3)
    assert fleet.fake.challenges == 3


@pytest.mark.parametrize("paced", [True, False])
async def test_pace_keeps_an_address_from_being_blocked(fleet, paced):
    """At the sum of three addresses' paces nobody is refused; without pacing the fake blocks."""
    # without pacing the window is long, so that a slow machine is refused too
    fleet.fake.quick_requests, fleet.fake.window_s = 8, 2.0 if paced else 600.0
    for _ in range(3):
        await fleet.start_worker(
            ddg_interval_s=0.5 if paced else 0.0, ddg_min_interval_s=0.5 if paced else 0.0
        )

    async def search(number: int) -> None:
        await asyncio.sleep(number / 4.5)
        try:
            await fleet.search(f"cats {number}", caller=f"c{number % 4}")
        except Fault:
            assert not paced

    if paced:
        await asyncio.gather(*(search(number) for number in range(15)))
        assert fleet.fake.challenges == 0
    else:
        await asyncio.gather(
            *(search(0) for _ in range(5)), *(search_others(fleet, n) for n in range(30))
        )
        assert fleet.fake.challenges > 0


async def search_others(fleet, number: int) -> None:
    try:
        await fleet.search(f"dogs {number}")
    except Fault as fault:
        # On a busy machine some wait for their turn until their deadline.
        assert fault.code in ("upstream_blocked", "deadline_exceeded")


async def test_no_call_fails_while_a_worker_on_standby_takes_over(nats_fleet, monkeypatch):
    """It does at the release: its next look at the leases would be hours later. Until it serves, the
    first one does."""
    monkeypatch.setattr(service, "_STANDBY_S", 36_000.0)
    first = await nats_fleet.start_worker(**ONLY)
    await nats_fleet.start_worker(**ONLY)
    opening, go_on = asyncio.Event(), asyncio.Event()
    open_egress = service._open_egress

    async def open_later(*arguments):
        opening.set()
        await go_on.wait()
        return await open_egress(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(service, "_open_egress", open_later)
        patch.setattr("searchbus_ddg.fleet._TAKEN_S", 3600.0)
        leaving = asyncio.create_task(first.drain())
        await until(opening.is_set)
        assert "10 results" in await nats_fleet.search("cats")
        go_on.set()
        await leaving
    assert "10 results" in await nats_fleet.search("dogs")


async def test_worker_on_standby_that_cannot_watch_looks_at_the_leases(fleet, monkeypatch, caplog):
    """From time to time; the log says why."""
    monkeypatch.setattr(service, "_STANDBY_S", 0.05)
    first = await fleet.start_worker(**ONLY)

    async def fail(on_write):
        raise RuntimeError("no subscription")

    leases = fleet.bus.transport.broker.buckets["sb_ddg_leases"]
    monkeypatch.setattr(leases, "watch", fail)
    await fleet.start_worker(**ONLY)
    assert "the leases are not watched" in caplog.text
    await first.drain()
    await until(lambda: _is_served(fleet))


async def test_worker_that_took_over_watches_the_leases_no_more(fleet):
    """Each write of each holder would be a message to it."""
    leases = fleet.bus.transport.broker.buckets
    first = await fleet.start_worker(**ONLY)
    await fleet.start_worker(**ONLY)
    assert leases["sb_ddg_leases"]._watchers
    await first.drain()
    await until(lambda: not leases["sb_ddg_leases"]._watchers)
    assert await _is_served(fleet)


async def _is_served(fleet) -> bool:
    try:
        return "10 results" in await fleet.search("dogs")
    except Fault as fault:
        assert fault.code == "unavailable"
        return False


async def test_worker_on_standby_takes_no_address_without_the_store(fleet, monkeypatch):
    """Its number would give it the address of another one."""
    asked = []

    class Away:
        async def keys(self):
            asked.append(None)
            raise Fault("unavailable", "The store is away. Try again.")

    held = await fleet.start_worker(ddg_egress=("bind:127.0.0.31",))
    claimed = []

    async def claim(leases, *arguments, **options):
        claimed.append(await egress.claim(Away() if claimed else leases, *arguments, **options))
        return claimed[-1]

    fleet.processes.clear()  # the next one has the first one's number
    monkeypatch.setattr(service, "claim", claim)
    drawn = []
    monkeypatch.setattr(random, "uniform", lambda *limits: drawn.append(limits) or limits[0])
    monkeypatch.setattr(service, "_STANDBY_S", 0.01)
    await fleet.start_worker(ddg_egress=("bind:127.0.0.31",))
    await until(lambda: len(asked) > 2)
    assert set(claimed) == {None}
    assert held.health is not None
    assert (0.5, 1.5) in drawn  # a thousand on standby do not ask at the same moment


async def test_restarted_worker_remembers_that_its_address_is_refused(fleet):
    """It sends no request before the cooldown ends."""
    only = {"ddg_egress": ("bind:127.0.0.31",), "ddg_challenge_rest_s": 60.0}
    first = await fleet.start_worker(**only)
    fleet.fake.blocked = {"127.0.0.31"}
    with pytest.raises(Fault):
        await fleet.search("cats")
    await asyncio.sleep(1.2)
    await first.drain()
    await fleet.start_worker(**only)
    with pytest.raises(Fault) as caught:
        await fleet.search("dogs")
    assert caught.value.code == "upstream_blocked"
    assert fleet.fake.challenges == 1

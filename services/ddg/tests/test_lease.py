"""Leases of egress addresses."""

from __future__ import annotations

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_ddg.egress import egress_id
from searchbus_ddg.lease import Lease, claim

EGRESSES = ("direct", "bind:10.0.0.1", "http://proxy:3128")


@pytest.fixture
def leases():
    return MemoryKeyValue(ttl_s=60)


async def test_each_worker_gets_another_egress(leases):
    """The next free one from its number on; surplus workers get none."""
    found = [await claim(leases, EGRESSES, f"w{i}", index=1) for i in range(4)]
    assert found == ["bind:10.0.0.1", "http://proxy:3128", "direct", None]


async def test_without_the_store_the_number_chooses(leases):
    """A worker beyond the last address gets none."""
    leases.away = True
    found = [await claim(leases, EGRESSES, "w", index=i) for i in (0, 1, 2, 3)]
    assert found == [*EGRESSES, None]


async def test_places_do_not_share_their_own_addresses(leases):
    """But proxies."""
    assert await claim(leases, ("direct",), "a", index=0, place="node1") == "direct"
    assert await claim(leases, ("direct",), "b", index=0, place="node2") == "direct"
    proxy = ("http://proxy:3128",)
    assert await claim(leases, proxy, "a", index=0, place="node1") == proxy[0]
    assert await claim(leases, proxy, "b", index=0, place="node2") is None


async def test_a_claimed_lease_is_kept_and_released(leases):
    """By the worker that claimed it; then another one gets it."""
    await claim(leases, ("direct",), "a", index=0, place="node")
    lease = Lease(leases, egress_id("direct", "node"), "a")
    for _ in range(3):
        await lease.refresh()
    assert not lease.lost
    assert await claim(leases, ("direct",), "b", index=0, place="node") is None
    await lease.release()
    assert await claim(leases, ("direct",), "b", index=0, place="node") == "direct"


async def test_a_lease_is_written_again_after_the_store_was_emptied(leases):
    """As after a restart of NATS."""
    lease = Lease(leases, "key", "a")
    await lease.refresh()
    await leases.delete("key")
    await lease.refresh()
    assert not lease.lost
    assert await leases.keys() == ["key"]


async def test_a_lease_of_another_holder_is_lost_until_that_one_stops(leases):
    """And not deleted: this worker was cut off until it expired."""
    lease = Lease(leases, "key", "a")
    await lease.refresh()
    successor = Lease(leases, "key", "b")
    await leases.delete("key")
    await successor.refresh()
    await lease.refresh()
    assert lease.lost
    await lease.release()
    assert await leases.keys() == ["key"]
    await successor.release()
    await lease.refresh()
    assert not lease.lost


async def test_an_unreachable_store_is_no_lost_lease(leases):
    """The worker goes on."""
    lease = Lease(leases, "key", "a")
    await lease.refresh()
    leases.away = True
    with pytest.raises(Fault):
        await lease.refresh()
    await lease.release()
    assert not lease.lost
    leases.away = False
    await lease.refresh()
    assert not lease.lost

"""Leases of egress addresses."""

from __future__ import annotations

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_bus.store.lease import Lease
from searchbus_ddg.egress import claim, egress_id

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
    lease = Lease(leases, egress_id("direct", "node"), b"a")
    for _ in range(3):
        assert await lease.write() is None
    assert await claim(leases, ("direct",), "b", index=0, place="node") is None
    await lease.release()
    assert await claim(leases, ("direct",), "b", index=0, place="node") == "direct"

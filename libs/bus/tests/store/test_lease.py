"""Leases: one holder at a time, whatever is lost on the way."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_bus.store.lease import Lease
from searchbus_contracts import Fault
from searchbus_testing import until


@pytest.fixture
def store():
    return MemoryKeyValue(ttl_s=60)


async def test_a_lease_is_written_again_after_the_store_was_emptied(store):
    """As after a restart of NATS; only the write that finds none says so."""
    lease = Lease(store, "key", b"a")
    assert await lease.write() is None
    assert lease.emptied
    assert await lease.write() is None
    assert not lease.emptied
    await store.delete("key")
    assert await lease.write() is None
    assert lease.emptied
    assert await store.keys() == ["key"]


async def test_a_lease_of_another_holder_is_lost_until_that_one_stops(store):
    """And not deleted: this one was cut off until it expired."""
    lease, successor = Lease(store, "key", b"a"), Lease(store, "key", b"b")
    await lease.write()
    await store.delete("key")
    await successor.write()
    entry = await lease.write()
    assert entry is not None
    assert entry.value == b"b"
    await lease.release()
    assert await store.keys() == ["key"]
    await successor.release()
    assert await lease.write() is None


async def test_who_knows_the_revision_takes_over(store):
    """Where nobody else was first."""
    await Lease(store, "key", b"gone").write()
    held = await store.get("key")
    assert held is not None
    successors = [Lease(store, "key", name, revision=held.revision) for name in (b"a", b"b")]
    first, second = [await lease.write() for lease in successors]
    assert first is None
    assert second is not None
    assert second.value == b"a"


async def test_an_unreachable_store_is_no_lost_lease(store):
    """The holder goes on, and what it wrote expires; a write whose reply was lost counts."""
    lease = Lease(store, "key", b"a")
    await lease.write()
    update = store.update

    async def reply_is_lost(*fields):
        await update(*fields)
        raise Fault("unavailable", "It is away.")

    store.update = reply_is_lost
    with pytest.raises(Fault):
        await lease.write()
    store.update = update
    store.away = True
    await lease.release()
    store.away = False
    await lease.release()
    assert await store.keys() == []
    assert await lease.write() is None


async def test_what_expired_is_made_again_only_where_wanted(store):
    """A fetch that was stopped for long has no lease to end."""
    lease = Lease(store, "key", b"a")
    await lease.write()
    await store.delete("key")
    assert await lease.write(create=False) is None
    assert await store.keys() == []


async def test_a_lease_is_kept_until_the_end_of_the_block(store):
    """Also where the store is away for a moment."""
    lease = Lease(store, "key", b"a", is_mine=lambda value: value.startswith(b"a"))
    await lease.write()
    written = []
    await store.watch(lambda key, value: written.append(value))
    async with lease.kept(0.001):
        await until(lambda: len(written) > 2)
        store.away = True
        await asyncio.sleep(0.01)
        store.away = False
        lease.value = b"a2"
        await until(lambda: written[-1] == b"a2")
    count = len(written)
    await asyncio.sleep(0.01)
    assert len(written) == count

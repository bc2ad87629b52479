"""The key-value store: NATS and memory behave alike."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import MemoryBroker, connect
from searchbus_bus.store.keyvalue import MAX_VALUE_BYTES, MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_testing import until


@pytest.fixture(params=["memory", "nats"])
async def bus(request, own_nats_server, tmp_path, patient_buckets):
    if request.param == "memory":
        bus = MemoryBroker().connect()
    else:
        server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
        bus = await connect(server.url, name="test")
    yield bus
    await bus.close()


@pytest.fixture
async def bucket(bus):
    return await bus.key_value("things", ttl_s=600.0, max_bytes=1_000_000)


async def test_values_are_written_changed_and_deleted(bucket):
    """Create succeeds once, update with the latest revision only."""
    assert await bucket.get("a") is None
    assert await bucket.keys() == []
    first = await bucket.create("a", b"1")
    assert first is not None
    assert await bucket.create("a", b"2") is None
    assert (await bucket.get("a")).value == b"1"
    second = await bucket.update("a", b"3", first)
    assert second is not None
    assert await bucket.update("a", b"4", first) is None
    await bucket.put("b.c", b"5")
    assert await bucket.keys() == ["a", "b.c"]
    await bucket.delete("a")
    await bucket.delete("never")
    assert await bucket.get("a") is None
    assert await bucket.create("a", b"6") is not None


async def test_a_revision_is_deleted_only_while_it_is_the_latest(bucket):
    """What another wrote meanwhile stays."""
    first = await bucket.create("a", b"1")
    second = await bucket.update("a", b"2", first)
    await bucket.delete("a", first)
    assert (await bucket.get("a")).value == b"2"
    await bucket.delete("a", second)
    await bucket.delete("a", second)
    assert await bucket.get("a") is None


@pytest.mark.parametrize("size_bytes", [MAX_VALUE_BYTES + 1, 2**20 + 1])
async def test_a_value_over_the_limit_is_a_fault(bus, size_bytes):
    """And the bucket works on, for a value that the client of NATS does not even send, too."""
    bucket = await bus.key_value("things", ttl_s=600.0, max_bytes=4 * MAX_VALUE_BYTES)
    kept = b"x" * MAX_VALUE_BYTES
    revision = await bucket.put("a", kept)
    for write in (
        bucket.put("a", bytes(size_bytes)),
        bucket.create("b", bytes(size_bytes)),
        bucket.update("a", bytes(size_bytes), revision),
    ):
        with pytest.raises(Fault, match="key-value store is unreachable"):
            await write
    assert (await bucket.get("a")).value == kept
    assert await bucket.get("b") is None


async def test_entries_expire(bus):
    """And may be created again."""
    bucket = await bus.key_value("short", ttl_s=1.0, max_bytes=1_000_000)
    await bucket.put("a", b"1")
    while await bucket.get("a") is not None:
        await asyncio.sleep(0.1)
    assert await bucket.keys() == []
    assert await bucket.create("a", b"2") is not None


async def test_one_of_many_creates(bucket):
    """A lease goes to one."""
    made = await asyncio.gather(*(bucket.create("lease", b"%d" % i) for i in range(20)))
    assert sum(revision is not None for revision in made) == 1


async def test_a_deleted_key_is_not_listed_any_more(bucket):
    """Its mark goes away by itself."""
    await bucket.put("a", b"1")
    await bucket.put("b", b"1")
    await bucket.delete("a")

    async def only_b() -> bool:
        return await bucket.keys() == ["b"]

    await until(only_b)


async def test_writes_are_reported_to_those_who_watch(bus, bucket):
    """Of every connection: the value, or that it was deleted."""
    seen = []
    await bucket.watch(lambda key, value: seen.append((key, value)))
    other = await bus.key_value("things", ttl_s=600.0, max_bytes=1_000_000)
    revision = await other.create("a.b", b"1")
    await other.update("a.b", b"2", revision)
    await other.put("c", b"")
    await other.delete("a.b")
    await until(lambda: len(seen) == 4)
    assert seen == [("a.b", b"1"), ("a.b", b"2"), ("c", b""), ("a.b", None)]


async def test_who_does_not_watch_any_more_is_called_no_more(bucket):
    """Others are."""
    ended, seen = [], []

    def note(key, value):
        ended.append(key)

    await bucket.watch(note)
    await bucket.watch(lambda key, value: seen.append(key))
    await bucket.unwatch(note)
    await bucket.put("a", b"1")
    await until(lambda: seen == ["a"])
    assert ended == []


async def test_a_bucket_is_watched_again_after_the_last_one_ended(bucket):
    """And not in between."""
    seen = []

    def note(key, value):
        seen.append(key)

    await bucket.watch(note)
    await bucket.unwatch(note)
    await bucket.unwatch(note)
    await bucket.put("a", b"1")
    await bucket.watch(note)
    await bucket.put("b", b"1")
    await until(lambda: seen)
    assert seen == ["b"]


async def test_an_entry_expires_after_its_time_to_live():
    """Counted from its last write."""
    now_s = [0.0]
    bucket = MemoryKeyValue(ttl_s=10.0, clock=lambda: now_s[0])
    first = await bucket.put("a", b"1")
    now_s[0] = 8
    await bucket.update("a", b"2", first)
    await bucket.put("b", b"3")
    now_s[0] = 18
    assert (await bucket.get("a")).value == b"2"
    now_s[0] = 18.1
    assert await bucket.get("a") is None
    assert await bucket.keys() == []
    assert await bucket.update("a", b"4", first + 1) is None
    assert await bucket.create("a", b"5") is not None


async def test_revisions_increase_over_the_whole_bucket():
    """As in a stream of NATS."""
    bucket = MemoryKeyValue(ttl_s=10.0)
    revisions = [
        await bucket.put("a", b""),
        await bucket.create("b", b""),
        await bucket.put("a", b""),
    ]
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize(
    "operation",
    [
        lambda bucket: bucket.get("a"),
        lambda bucket: bucket.put("a", b""),
        lambda bucket: bucket.create("a", b""),
        lambda bucket: bucket.update("a", b"", 1),
        lambda bucket: bucket.delete("a"),
        lambda bucket: bucket.keys(),
    ],
)
async def test_every_operation_fails_while_the_store_is_unreachable(operation):
    """Typed, as with NATS; tests set `away`."""
    bucket = MemoryKeyValue(ttl_s=10.0)
    bucket.away = True
    with pytest.raises(Fault) as caught:
        await operation(bucket)
    assert caught.value.code == "unavailable"

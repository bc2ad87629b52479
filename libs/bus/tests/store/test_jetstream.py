"""The bucket in NATS: servers without JetStream, restarts, other limits."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import nats.js.errors
import pytest

from searchbus_bus import Bus, connect
from searchbus_bus.store.jetstream import NatsKeyValue, open_bucket, replicate
from searchbus_bus.store.keyvalue import MAX_VALUE_BYTES
from searchbus_contracts import Fault
from searchbus_testing import at_last

patient = pytest.mark.usefixtures("patient_buckets")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[Bus, NatsKeyValue]]:
    """A connection and a bucket."""
    bus = await connect(url, name="test")
    try:
        yield bus, await bus.key_value("things", ttl_s=600.0, max_bytes=4 * MAX_VALUE_BYTES)
    finally:
        await bus.close()


async def test_a_server_without_jetstream_is_unavailable(own_nats_server):
    """A typed failure, so that callers continue without the store."""
    async with opened(own_nats_server().url) as (_, bucket):
        with pytest.raises(Fault) as caught:
            await bucket.get("a")
        assert caught.value.code == "unavailable"


async def test_a_bucket_opens_when_the_store_appears(own_nats_server, tmp_path):
    """A process that started first shares its state from then on."""
    server = own_nats_server()
    async with opened(server.url) as (_, bucket):
        with pytest.raises(Fault):
            await bucket.put("a", b"1")
        server.stop()
        server.arguments = ("-js", "-sd", str(tmp_path / "js"))
        server.start()
        await at_last(partial(bucket.put, "a", b"1"))
        assert await at_last(partial(bucket.get, "a"))


async def test_only_the_first_operation_waits_for_a_server_that_hangs(own_nats_server, tmp_path):
    """Then nothing is sent, until the bucket was opened again in the background."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    async with opened(server.url) as (bus, bucket):
        await at_last(partial(bucket.put, "a", b"1"))
        server.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(Fault):
                while True:  # a reply may still come
                    await bucket.get("a")
            sent = bus.transport._client.stats["out_msgs"]
            # So few that the connection is not taken for lost while each of them waits.
            for _ in range(20):
                with pytest.raises(Fault):
                    await bucket.get("a")
            # An attempt to open it, a request or two; not the twenty.
            assert bus.transport._client.stats["out_msgs"] - sent < 20
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert (await at_last(partial(bucket.get, "a"))).value == b"1"


async def test_a_reply_counts_though_the_machine_stood_still_for_long(
    own_nats_server, tmp_path, monkeypatch
):
    """Longer than nats-py would wait, and the server stood still as well."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("things", ttl_s=600.0, max_bytes=100_000, timeout_s=60.0)
    await at_last(partial(bucket.put, "a", b"1"))
    server.process.send_signal(signal.SIGSTOP)
    steps = (bucket.get("a"), bucket.keys(), bucket.delete("b"))
    asking = [asyncio.create_task(step) for step in steps]
    for _ in range(10):
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    now_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: now_s() + 3.0)
    for _ in range(10):
        await asyncio.sleep(0)
    server.process.send_signal(signal.SIGCONT)
    entry, keys, _ = await asyncio.gather(*asking)
    assert entry.value == b"1"
    assert "a" in keys
    await bus.close()


@patient
async def test_a_bucket_that_nobody_uses_is_not_made(own_nats_server, tmp_path):
    """A server wakes up once a second for each that it has."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    async with opened(server.url) as (bus, bucket):
        made = bus.transport._client.jetstream()
        assert await made.streams_info() == []
        assert await bucket.get("a") is None
        assert [stream.config.name for stream in await made.streams_info()] == ["KV_sb_things"]


@patient
async def test_listing_leaves_no_consumers_behind(own_nats_server, tmp_path):
    """Nor does watching: a server keeps each for minutes and refuses the thousandth."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    async with opened(server.url) as (bus, bucket):
        await bucket.watch(lambda key, value: None)
        await bucket.put("a", b"1")
        for _ in range(200):
            assert await bucket.keys() == ["a"]
        info = await bus.transport._client.jetstream().stream_info("KV_sb_things")
        assert info.state.consumer_count == 0


async def test_a_bucket_is_created_again_after_a_restart(own_nats_server, tmp_path):
    """Empty."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("things", ttl_s=600.0, max_bytes=100_000)
    await at_last(partial(bucket.put, "a", b"1"))
    server.stop()
    with pytest.raises(Fault, match="key-value store is unreachable"):
        await bucket.get("a")
    server.start()
    assert await at_last(partial(bucket.get, "a")) is None
    await at_last(partial(bucket.put, "a", b"2"))
    assert (await at_last(partial(bucket.get, "a"))).value == b"2"
    await bus.close()


@patient
async def test_a_bucket_with_other_limits_is_used_as_it_is(own_nats_server, tmp_path):
    """In a rolling update, old and new workers share it."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    old = await bus.key_value("things", ttl_s=600.0, max_bytes=100_000)
    await old.put("a", b"1")
    new = await bus.key_value("things", ttl_s=60.0, max_bytes=200_000)
    assert (await new.get("a")).value == b"1"
    await bus.close()


@patient
async def test_a_full_bucket_drops_its_oldest_entries(own_nats_server, tmp_path):
    """A cache that refused new ones would be of no use until the old ones expire."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("things", ttl_s=600.0, max_bytes=20_000)
    for number in range(100):
        await bucket.put(f"k{number}", b"x" * 1000)
    assert await bucket.get("k0") is None
    assert (await bucket.get("k99")).value == b"x" * 1000
    assert 10 <= len(await bucket.keys()) < 20
    await bus.close()


@patient
async def test_nothing_is_opened_after_the_connection_was_closed(own_nats_server, tmp_path):
    """A late operation fails, and starts nothing."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    async with opened(server.url) as (_, bucket):
        await bucket.put("a", b"1")
    with pytest.raises(Fault, match="its connection is closed"):
        await bucket.get("a")
    assert bucket._opening.done()


@patient
async def test_an_entry_that_went_away_while_another_was_created(
    own_nats_server, tmp_path, monkeypatch
):
    """The write is lost like one that came second; the caller tries again."""
    server = own_nats_server("-js", "-sd", str(tmp_path))
    async with opened(server.url) as (_, bucket):
        assert await bucket.create("a", b"1")

        async def gone(*_: object, **__: object) -> None:
            raise nats.js.errors.KeyNotFoundError

        monkeypatch.setattr("nats.js.kv.KeyValue._get", gone)
        assert await bucket.create("a", b"2") is None


@pytest.fixture
async def client(own_nats_server, tmp_path):
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    yield bus.transport._client
    await bus.close()


async def test_the_stream_is_in_memory_and_limited(client):
    """One value for each key, which expires; reads need no leader."""
    await open_bucket(client, "sb_things", ttl_s=60.0, max_bytes=10_000, timeout_s=5.0)
    config = (await client.jetstream().stream_info("KV_sb_things")).config
    assert (config.storage, config.max_age, config.max_bytes) == ("memory", 60.0, 10_000)
    assert (config.max_msgs_per_subject, config.max_msg_size) == (1, MAX_VALUE_BYTES)
    assert config.allow_direct
    assert config.num_replicas == 1


async def test_a_bucket_that_exists_keeps_its_limits(client):
    """In a rolling update, old and new workers share it."""
    old = await open_bucket(client, "sb_things", ttl_s=60.0, max_bytes=10_000, timeout_s=5.0)
    await old.put("a", b"1")
    new = await open_bucket(client, "sb_things", ttl_s=600.0, max_bytes=20_000, timeout_s=5.0)
    assert (await new.get("a")).value == b"1"
    assert (await client.jetstream().stream_info("KV_sb_things")).config.max_bytes == 10_000


async def test_a_single_server_has_no_replicas(client):
    """There is nothing to do."""
    await open_bucket(client, "sb_things", ttl_s=60.0, max_bytes=10_000, timeout_s=5.0)
    assert await replicate(client, "sb_things", timeout_s=5.0)


async def test_a_bucket_on_disk_outlives_its_server_also_where_entries_expire(
    own_nats_server, tmp_path
):
    """As the counts of a day."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("day", ttl_s=600.0, max_bytes=MAX_VALUE_BYTES, on_disk=True)
    await at_last(partial(bucket.put, "a", b"1"))
    server.stop()
    server.start()
    assert (await at_last(partial(bucket.get, "a"))).value == b"1"
    await bus.close()


async def test_a_bucket_that_lasts_outlives_its_server(own_nats_server, tmp_path):
    """Its entries are on the server's disk; one that is full refuses new entries and keeps the old."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("kept", ttl_s=None, max_bytes=4 * MAX_VALUE_BYTES)
    await at_last(partial(bucket.put, "a", b"1"))
    server.stop()  # killed
    server.start()
    assert (await at_last(partial(bucket.get, "a"))).value == b"1"
    value = b"x" * (MAX_VALUE_BYTES // 2)
    with pytest.raises(Fault):
        for number in range(10):
            await bucket.put(f"large{number}", value)
    assert await at_last(partial(bucket.get, "a"))  # it is opened again after the refusal
    await bus.close()

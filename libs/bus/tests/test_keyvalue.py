"""The shared memory: NATS and its twin behave alike; a restarted server is no end."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from searchbus_bus import MemoryBroker, connect
from searchbus_contracts import Fault


@pytest.fixture(params=["memory", "nats"])
async def bucket(request, own_nats_server):
    if request.param == "memory":
        broker = MemoryBroker()
        bus = broker.connect()
    else:
        server = own_nats_server("-js", "-sd", "/tmp/searchbus-test-" + uuid.uuid4().hex)
        bus = await connect(server.url, name="test")
    yield await bus.key_value("things", ttl_s=1.0, max_bytes=1_000_000)
    await bus.close()


async def test_values_are_kept_changed_and_forgotten(bucket):
    """Create is for the first only; update for who knows the revision; time ends an entry."""
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
    await asyncio.sleep(1.4)
    assert await bucket.get("b.c") is None
    assert await bucket.create("b.c", b"7") is not None


async def test_one_of_many_creates(bucket):
    """The lease goes to one."""
    made = await asyncio.gather(*(bucket.create("lease", b"%d" % i) for i in range(20)))
    assert sum(revision is not None for revision in made) == 1


async def test_server_without_jetstream_is_unavailable(own_nats_server):
    """Typed, so that callers go on without."""
    bus = await connect(own_nats_server().url, name="test")
    with pytest.raises(Fault) as caught:
        await bus.key_value("things", ttl_s=1.0, max_bytes=1000)
    assert caught.value.code == "unavailable"
    await bus.close()


async def test_bucket_is_made_again_after_a_restart(own_nats_server, tmp_path):
    """Empty, but there."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("things", ttl_s=60.0, max_bytes=100_000)
    await bucket.put("a", b"1")
    server.stop()
    server.start()
    for _ in range(100):
        try:
            assert await bucket.get("a") is None
            await bucket.put("a", b"2")
            break
        except Fault:
            await asyncio.sleep(0.1)
    assert (await bucket.get("a")).value == b"2"
    await bus.close()

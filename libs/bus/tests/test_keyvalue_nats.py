"""The bucket in NATS: servers without JetStream, restarts, other limits."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import connect
from searchbus_bus.keyvalue_nats import MAX_VALUE_BYTES
from searchbus_contracts import Fault


async def test_a_server_without_jetstream_is_unavailable(own_nats_server):
    """A typed failure, so that callers continue without the store."""
    bus = await connect(own_nats_server().url, name="test")
    with pytest.raises(Fault) as caught:
        await bus.key_value("things", ttl_s=1.0, max_bytes=1000)
    assert caught.value.code == "unavailable"
    await bus.close()


async def test_a_bucket_is_created_again_after_a_restart(own_nats_server, tmp_path):
    """Empty."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("things", ttl_s=600.0, max_bytes=100_000)
    await bucket.put("a", b"1")
    server.stop()
    with pytest.raises(Fault, match="key-value store is unreachable"):
        await bucket.get("a")
    server.start()
    async with asyncio.timeout(60):
        while True:
            try:
                assert await bucket.get("a") is None
                await bucket.put("a", b"2")
                break
            except Fault:
                await asyncio.sleep(0.1)
    assert (await bucket.get("a")).value == b"2"
    await bus.close()


async def test_a_bucket_with_other_limits_is_used_as_it_is(own_nats_server, tmp_path):
    """In a rolling update, old and new workers share it."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    old = await bus.key_value("things", ttl_s=600.0, max_bytes=100_000)
    await old.put("a", b"1")
    new = await bus.key_value("things", ttl_s=60.0, max_bytes=200_000)
    assert (await new.get("a")).value == b"1"
    await bus.close()


async def test_a_value_over_the_limit_is_a_fault(own_nats_server, tmp_path):
    """And the bucket works on."""
    server = own_nats_server("-js", "-sd", str(tmp_path / "js"))
    bus = await connect(server.url, name="test")
    bucket = await bus.key_value("things", ttl_s=600.0, max_bytes=4 * MAX_VALUE_BYTES)
    with pytest.raises(Fault):
        await bucket.put("a", b"x" * (MAX_VALUE_BYTES + 1000))
    await bucket.put("a", b"x")
    assert (await bucket.get("a")).value == b"x"
    await bus.close()

"""The stream behind a bucket. tests/processes has a cluster."""

from __future__ import annotations

import pytest

from searchbus_bus import connect
from searchbus_bus.store.jetstream import MAX_VALUE_BYTES, open_bucket, replicate


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

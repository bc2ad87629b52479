"""The key-value store in a cluster of three servers, of which one is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import nats.errors
import pytest

from searchbus_bus import Bus, KeyValue, connect
from searchbus_contracts import Fault
from searchbus_edge.tools.limits import SharedLimiter
from searchbus_testing import NatsServer, until

from .nats_cluster import nats_cluster

pytestmark = pytest.mark.slow
# Votes take seconds: the tests below need a bucket that is replicated, not a quick one.
OPTIONS = {"ttl_s": 600.0, "max_bytes": 2**20}


@pytest.fixture
async def servers(tmp_path) -> AsyncIterator[list[NatsServer]]:
    with nats_cluster(tmp_path) as found:
        yield found


async def joined(servers: list[NatsServer], first: int) -> Bus:
    """A connection to one of the servers, which knows the others too."""
    order = [*servers[first:], *servers[:first]]
    return await connect(
        ",".join(server.url for server in order), name=f"edge{first}", connect_timeout_s=60.0
    )


async def works(bucket: KeyValue) -> bool:
    """Whether a value can be written and read."""
    try:
        await bucket.put("probe", b"1")
        return await bucket.get("probe") is not None
    except Fault:
        return False


async def leader_of(bus: Bus, servers: list[NatsServer]) -> NatsServer:
    """The server that leads the bucket `limits`, once it has three replicas."""
    context = bus.transport._client.jetstream()

    async def replicated() -> Any:
        try:
            info = await context.stream_info("KV_sb_limits")
        except (nats.errors.Error, TimeoutError):
            return None
        whole = len(info.cluster.replicas or []) == 2 and info.cluster.leader
        return info if whole and all(r.current for r in info.cluster.replicas) else None

    info = await until(replicated, timeout_s=120.0)
    assert info.config.num_replicas == 3
    return servers[int(info.cluster.leader.removeprefix("n"))]


async def test_a_bucket_outlives_the_server_that_leads_it(servers):
    """With its values; also one that was made while a single server was up."""
    for server in servers[1:]:
        server.stop()
    # Two of three cannot be reached: nothing can be made yet.
    async with AsyncExitStack() as exit_:
        bus = await joined(servers, 0)
        exit_.push_async_callback(bus.close)
        bucket = await bus.key_value("limits", **OPTIONS)
        with pytest.raises(Fault):
            await bucket.put("a", b"1")
        for server in servers[1:]:
            server.start()

        async def kept() -> bool:
            try:
                return await bucket.put("a", b"1") > 0
            except Fault:
                return False

        await until(kept, timeout_s=120.0)
        leader = await leader_of(bus, servers)
        leader.stop()
        other = await joined([server for server in servers if server is not leader], 0)
        exit_.push_async_callback(other.close)
        same = await other.key_value("limits", **OPTIONS)
        await until(lambda: works(same), timeout_s=120.0)
        assert (await same.get("a")).value == b"1"
        await until(lambda: works(bucket), timeout_s=120.0)


async def test_a_bucket_from_before_the_cluster_was_whole_gets_its_replicas(servers):
    """It was made with one."""
    async with AsyncExitStack() as exit_:
        bus = await joined(servers, 0)
        exit_.push_async_callback(bus.close)
        context = bus.transport._client.jetstream(timeout=5.0)

        async def made() -> bool:
            try:
                await context.create_key_value(bucket="sb_limits", storage="memory")
            except (nats.errors.Error, TimeoutError):
                return False
            return True

        await until(made, timeout_s=120.0)
        bucket = await bus.key_value("limits", **OPTIONS)
        with suppress(Fault):  # the first operation opens it, until it succeeds
            await bucket.get("a")
        await leader_of(bus, servers)


class Clock:
    """The seconds of three edges, which pass in steps: a busy machine makes fewer of them."""

    def __init__(self) -> None:
        self._steps = 0

    def __call__(self) -> float:
        return 1.8e9 + self._steps / 100

    async def run(self, stop: asyncio.Event) -> None:
        """Make steps until it is stopped."""
        while not stop.is_set():
            await asyncio.sleep(0.01)
            self._steps += 1


async def test_limits_hold_while_the_leading_server_is_lost(servers):
    """Three edges admit no more than one does, five percent apart; no request fails otherwise."""
    rate_per_s, burst = 20.0, 20
    clock = Clock()
    async with AsyncExitStack() as exit_:
        buses = [await joined(servers, number) for number in range(3)]
        for bus in buses:
            exit_.push_async_callback(bus.close)
        buckets = [await bus.key_value("limits", **OPTIONS) for bus in buses]
        for bucket in buckets:
            await until(lambda bucket=bucket: works(bucket), timeout_s=120.0)
        limiters = [
            SharedLimiter("call", bucket, rate_per_s, burst, edges=lambda: 3, clock=clock)
            for bucket in buckets
        ]
        leader = await leader_of(buses[0], servers)
        admitted = 0
        stop = asyncio.Event()

        async def call(limiter: SharedLimiter) -> None:
            nonlocal admitted
            while not stop.is_set():
                try:
                    await limiter.admit("alice")
                    admitted += 1
                except Fault as fault:
                    assert fault.code == "rate_limited"
                await asyncio.sleep(0.005)

        started_s = clock()
        calling = [asyncio.create_task(call(limiter)) for limiter in limiters]
        calling.append(asyncio.create_task(clock.run(stop)))
        await until(lambda: clock() > started_s + 2.0, timeout_s=120.0)
        leader.stop()
        await until(lambda: clock() > started_s + 3.0, timeout_s=120.0)
        for bucket in buckets:
            await until(lambda bucket=bucket: works(bucket), timeout_s=120.0)
        again_s = clock()
        await until(lambda: clock() > again_s + 4.0, timeout_s=120.0)
        stop.set()
        await asyncio.gather(*calling)
        elapsed_s = clock() - started_s
    # While the store is slow each edge counts for itself, for a moment.
    assert admitted <= 1.15 * (rate_per_s * elapsed_s + burst)
    assert admitted >= 0.5 * rate_per_s * elapsed_s

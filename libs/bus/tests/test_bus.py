"""A connection to the bus: requests, fan-out, events, discovery, buckets."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct

from searchbus_bus import Bus, MemoryBroker, Request
from searchbus_contracts import Fault
from searchbus_testing import until


class Number(Struct):
    value: int


@pytest.fixture
async def bus(transport):
    """On a transport that the test controls."""
    return Bus(transport, name="test", prefix="p")


def request(name: str, **options) -> Request[Number]:
    return Request(f"p.v1.{name}.get", Number(0), Number, service=name, **options)


async def test_the_reply_is_decoded(bus, transport):
    """Into the type of the request."""
    transport.on_publish = lambda message: transport.reply(message, b'{"value":7}')
    assert await bus.send(request("a")) == Number(7)
    reply = await bus.request("p.v1.a.get", Number(0), Number, service="a", timeout_s=60)
    assert reply == Number(7)


async def test_a_reply_of_another_type_is_internal_and_names_the_service(bus, transport):
    """Its content stays in the log."""
    transport.on_publish = lambda message: transport.reply(message, b'{"value":"canary"}')
    with pytest.raises(Fault, match="The a service's answer") as caught:
        await bus.send(request("a"))
    assert caught.value.code == "internal"
    assert "canary" not in str(caught.value)


async def test_no_request_of_a_fanout_has_more_time_than_the_fanout(bus, transport):
    """A request may have less."""
    transport.on_publish = lambda message: transport.reply(message, b'{"value":1}')
    await bus.gather(
        {"long": request("long", timeout_s=500), "short": request("short", timeout_s=5)},
        timeout_s=50,
    )
    budgets = {m.subject: int(m.headers["Timeout-Ms"]) for m in transport.published}
    assert 5_000 < budgets["p.v1.long.get"] <= 50_000
    assert budgets["p.v1.short.get"] <= 5_000


async def test_in_flight_counts_requests_without_a_reply(bus, transport):
    """For metrics and for tests."""
    task = asyncio.create_task(bus.send(request("a")))
    await until(lambda: bus.in_flight == 1)
    await transport.reply(transport.published[0], b'{"value":1}')
    await task
    assert bus.in_flight == 0


async def test_events_reach_every_subscriber_and_a_failing_handler_stays_subscribed():
    """Its exception is logged."""
    broker = MemoryBroker()
    one, other = broker.connect(), broker.connect()
    found: list[bytes] = []

    async def failing(subject: str, data: bytes) -> None:
        found.append(data)
        raise ValueError("no")

    await one.subscribe("p.events", failing)
    for value in (1, 2):
        await other.publish("p.events", Number(value))
    await until(lambda: len(found) == 2)
    assert found == [b'{"value":1}', b'{"value":2}']


async def test_a_bucket_has_the_prefix_of_the_stack():
    """Two stacks on one server do not share it."""
    broker = MemoryBroker()
    mine, yours = broker.connect(prefix="mine"), broker.connect(prefix="yours")
    bucket = await mine.key_value("cache", ttl_s=60, max_bytes=1000)
    await bucket.put("k", b"v")
    assert set(broker.buckets) == {"mine_cache"}
    assert await (await yours.key_value("cache", ttl_s=60, max_bytes=1000)).get("k") is None
    assert (await (await mine.key_value("cache", ttl_s=60, max_bytes=1000)).get("k")).value == b"v"

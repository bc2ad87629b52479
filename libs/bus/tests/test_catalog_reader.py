"""Catalogues are read by hash; of a large one, what is new."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.catalog_reader import CatalogReader
from searchbus_bus.worker import ToolEndpoint
from searchbus_contracts import (
    Catalog,
    CatalogRequest,
    Fault,
    ToolDescriptor,
    ToolReply,
    decode,
    encode,
)


def tool(number: int, description: str = "d" * 1000) -> ToolDescriptor:
    return ToolDescriptor(
        name=f"tool_{number:05}", toolset="many", description=description,
        input_schema={"type": "object"},
    )  # fmt: skip


def worker(count: int) -> Worker:
    made = Worker("many")
    for number in range(count):
        made.add_tool(tool(number), reply)
    return made


async def reply(call, request) -> ToolReply:
    return ToolReply()


class Counting(MemoryBroker):
    """Counts what goes over the broker."""

    sent_bytes = 0
    requests: list[CatalogRequest]

    def route(self, message) -> None:
        self.sent_bytes += len(message.data)
        if ".v1.catalog." in message.subject:
            self.requests.append(decode(message.data, CatalogRequest))
        super().route(message)


@pytest.fixture
def broker() -> Counting:
    made = Counting()
    made.requests = []
    return made


async def change_one(broker: Counting, count: int) -> tuple[Catalog, Catalog, int]:
    """Two catalogues of which one tool differs, and the bytes that the second one took."""
    offered = worker(count)
    serving = await broker.connect().serve(offered)
    reader = CatalogReader(broker.connect())
    first, _ = await reader.read("many", offered.catalog.digest)
    offered._tools["many", "tool_00042"] = ToolEndpoint(tool(42, "new"), reply)
    await serving.refresh()
    broker.sent_bytes = 0
    second, _ = await reader.read("many", offered.catalog.digest)
    assert second == offered.catalog
    return first, second, broker.sent_bytes


async def test_one_changed_tool_among_thousands_costs_one_part(broker):
    """And the list of parts; the other descriptors stay the same objects."""
    first, second, sent_bytes = await change_one(broker, 3000)
    whole_bytes = len(encode(second))
    assert whole_bytes > 3_000_000
    assert sent_bytes < whole_bytes / 10
    same = [one is two for one, two in zip(first.tools, second.tools, strict=True)]
    assert same.count(False) < 300
    assert not same[42]


@pytest.mark.slow
async def test_one_changed_tool_among_fifty_thousand_costs_less_than_a_megabyte(broker):
    """To each follower."""
    _, second, sent_bytes = await change_one(broker, 50_000)
    assert len(encode(second)) > 50_000_000
    assert sent_bytes <= 1_000_000


async def test_worker_without_parts_is_read_whole(broker):
    """One of an older version ignores the field."""
    bus = broker.connect()

    async def describe(message) -> None:
        await bus.transport.publish(message.reply, encode(worker(200).catalog))

    await bus.transport.subscribe(bus.subjects.catalog("many", "d1"), describe)
    catalog, _ = await CatalogReader(broker.connect()).read("many", "d1")
    assert catalog == worker(200).catalog
    assert [request.parts for request in broker.requests] == [()]


async def test_what_was_read_of_a_catalogue_is_not_read_again(broker):
    """After a fault in the middle, the reader goes on from there."""
    offered = worker(2000)
    serving = await broker.connect().serve(offered)
    reader = CatalogReader(broker.connect())
    reply_with = serving._offered.reply

    def failing(wanted):
        if len(broker.requests) > 2:
            raise Fault("internal", "It broke.")
        return reply_with(wanted)

    serving._offered.reply = failing
    with pytest.raises(Fault, match="It broke"):
        await reader.read("many", offered.catalog.digest)
    serving._offered.reply = reply_with
    asked = len(broker.requests)
    assert (await reader.read("many", offered.catalog.digest))[0] == offered.catalog
    lists, first, *_ = broker.requests[asked:]
    assert lists.parts == ()
    assert len(first.parts) < len(broker.requests[1].parts)


async def test_catalogue_of_another_service_is_refused(broker):
    """A worker speaks for its own service only."""
    bus = broker.connect()

    async def describe(message) -> None:
        await bus.transport.publish(message.reply, encode(Catalog(service="other")))

    await bus.transport.subscribe(bus.subjects.catalog("many", "d1"), describe)
    with pytest.raises(Fault, match="it is of other"):
        await CatalogReader(broker.connect()).read("many", "d1")

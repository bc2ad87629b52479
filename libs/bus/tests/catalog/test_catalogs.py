"""Catalogues are read at the same time, and a slow one holds nobody."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.catalog.catalogs import Catalogs
from searchbus_contracts import ToolDescriptor, ToolReply
from searchbus_testing import until


def worker(service: str) -> Worker:
    made = Worker(service)

    async def reply(call, request) -> ToolReply:
        return ToolReply()

    made.add_tool(
        ToolDescriptor(
            name="one", toolset=service, description="d", input_schema={"type": "object"}
        ),
        reply,
    )
    return made


@pytest.fixture
async def broker() -> MemoryBroker:
    return MemoryBroker()


async def test_catalogue_is_read_once_for_a_hash(broker):
    """And dropped when it is forgotten."""
    serving = await broker.connect().serve(worker("a"))
    catalogs = Catalogs(broker.connect())
    wanted = {"a": serving.worker.catalog.digest}
    await catalogs.read(wanted)
    (first,) = catalogs.all
    await serving.drain()
    await catalogs.read(wanted)
    assert catalogs.all[0] is first
    assert catalogs.toolsets == {"a": ("a",)}
    catalogs.forget("a")
    assert (catalogs.all, catalogs.toolsets) == ((), {})


async def test_slow_catalogue_holds_no_other(broker):
    """It is there once it was read; whoever waits is told."""
    slow, quick = worker("slow"), worker("quick")
    serving = await broker.connect().serve(slow)
    await broker.connect().serve(quick)
    go_on, told = asyncio.Event(), []
    reply = serving._reply_catalog

    async def later(call, body):
        await go_on.wait()
        return await reply(call, body)

    subject = serving._subjects.catalog("slow", slow.catalog.digest)
    await serving._membership.remove(subject)
    await serving._membership.add(subject, later, stays=True)
    catalogs = Catalogs(broker.connect(), on_read=lambda: told.append(1))
    wanted = {"slow": slow.catalog.digest, "quick": quick.catalog.digest}
    while not catalogs.all:
        await catalogs.read(wanted, patience_s=0.01)
    assert [catalog.service for catalog in catalogs.all] == ["quick"]
    told.clear()
    go_on.set()
    await until(lambda: told)
    assert [catalog.service for catalog in catalogs.all] == ["quick", "slow"]
    await catalogs.close()


async def test_catalogue_that_cannot_be_read_is_logged(broker, caplog):
    """No worker has that hash, or it is none."""
    told: list[int] = []
    catalogs = Catalogs(broker.connect(), on_read=lambda: told.append(1))
    await catalogs.read({"a": "d" * 32, "b": "no token", "c": ""})
    assert (catalogs.all, told) == ((), [])  # whoever is told would try again at once
    assert caplog.text.count("could not be read") == 2

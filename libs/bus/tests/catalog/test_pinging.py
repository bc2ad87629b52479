"""Instances that answer no ping are told from busy ones."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.catalog.directory import silent_instances


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.01)


async def test_busy_instances_answer_and_others_do_not():
    """Also where an id cannot be part of a subject."""
    broker = MemoryBroker()
    serving = await broker.connect().serve(Worker("alpha", max_in_flight=1))
    here = ("alpha", serving.instance)
    others = [("alpha", "gone"), ("alpha", "no.token"), ("beta", serving.instance)]
    assert await silent_instances(broker.connect(), [here, *others]) == others
    assert await silent_instances(broker.connect(), []) == []


async def test_who_reconnects_later_than_this_process_is_not_lost(monkeypatch):
    """After a restart of the server."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.4)
    broker = MemoryBroker()
    worker, bus = broker.connect(), broker.connect()
    serving = await worker.serve(Worker("alpha"))
    for lost in (worker, bus):
        lost.transport.sever()
    bus.transport.restore()
    asyncio.get_running_loop().call_later(0.6, worker.transport.restore)
    assert await silent_instances(bus, [("alpha", serving.instance)]) == []


async def test_one_lost_ping_is_no_proof():
    """A worker may hang for a moment."""
    bus, asked = MemoryBroker().connect(), []

    async def second_time(service, instance, timeout_s):
        asked.append((service, instance))
        return len(asked) == 2

    bus.ping = second_time
    assert await silent_instances(bus, [("alpha", "a")]) == []
    assert asked == [("alpha", "a")] * 2

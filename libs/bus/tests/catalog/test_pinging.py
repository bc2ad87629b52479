"""Instances that answer no ping are told from busy ones."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.catalog.directory import silent_instances
from searchbus_contracts import Fault, Pong


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


async def test_one_lost_ping_is_no_proof():
    """A worker may hang for a moment."""
    bus, asked = MemoryBroker().connect(), []

    async def second_time(subject, *_, **__):
        asked.append(subject)
        if len(asked) == 1:
            raise Fault("deadline_exceeded", "It did not answer.")
        return Pong(instance="a", in_flight=0)

    bus.request = second_time
    assert await silent_instances(bus, [("alpha", "a")]) == []
    assert len(asked) == 2

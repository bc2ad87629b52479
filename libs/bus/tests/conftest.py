"""The two sides of the behaviour suite: a real nats-server and the in-memory twin."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from searchbus_bus import Bus, MemoryBroker, connect

Connect = Callable[..., Awaitable[Bus]]


@pytest.fixture(params=["memory", "nats"])
async def connect_bus(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Make connections that see each other and nobody else."""
    prefix = f"t{secrets.token_hex(4)}"
    buses: list[Bus] = []
    broker = MemoryBroker()

    async def make(name: str = "test", **options: Any) -> Bus:
        if request.param == "memory":
            bus = broker.connect(name=name, prefix=prefix)
        else:
            server = request.getfixturevalue("nats_server")
            bus = await connect(server.url, name=name, prefix=prefix, **options)
        buses.append(bus)
        return bus

    yield make
    for bus in buses:
        await bus.close()

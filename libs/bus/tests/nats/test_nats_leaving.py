"""Leaving ends quickly, with a server or without one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import nats.errors
import pytest

from searchbus_bus.nats import transport as nats_leaving
from searchbus_bus.nats.transport import NatsAnnouncement, NatsSubscription


class Steps:
    """The steps that were begun; `outcome` is what each does."""

    id = "i1"
    subscriptions = ("ping", "info")

    def __init__(self, outcome) -> None:
        self.begun: list[str] = []
        self._outcome = outcome

    def __getattr__(self, name: str):
        async def step() -> None:
            self.begun.append(name)
            await self._outcome()

        return step


async def leave(client, steps: Steps) -> None:
    subscription = NatsSubscription(client, steps)
    await subscription.drain()
    await subscription.unsubscribe()
    await NatsAnnouncement(client, steps).withdraw()


async def nothing() -> None:
    return None


async def fail() -> None:
    raise nats.errors.ConnectionClosedError


@pytest.mark.parametrize("outcome", [nothing, fail, lambda: asyncio.Event().wait()])
async def test_a_step_that_fails_or_hangs_ends(monkeypatch, outcome):
    """The connection may be lost in the middle."""
    monkeypatch.setattr(nats_leaving, "LEAVE_TIMEOUT_S", 0.01)
    steps = Steps(outcome)
    client = SimpleNamespace(is_connected=True, leaving=set())
    await leave(client, steps)
    assert steps.begun == ["drain", "unsubscribe", "stop"]
    # What did not end is not made again on the next connection.
    assert client.leaving == (set() if outcome is nothing else {steps, *steps.subscriptions})


async def test_without_a_server_nothing_is_begun():
    """Each step would wait for ten seconds. The next connection leaves them out."""
    steps = Steps(nothing)
    client = SimpleNamespace(is_connected=False, leaving=set())
    await leave(client, steps)
    assert steps.begun == []
    assert client.leaving == {steps, *steps.subscriptions}

"""Subscriptions and announcements on NATS, which end quickly also while there is no server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import nats.errors
from nats.aio.subscription import Subscription

from .nats_overrides import BusClient, DescribedService

__all__ = ["LEAVE_TIMEOUT_S", "NatsAnnouncement", "NatsSubscription"]

log = logging.getLogger("searchbus.bus")

LEAVE_TIMEOUT_S = 5.0


async def _leave(
    client: BusClient, subscriptions: list[Subscription], step: Callable[[], Awaitable[Any]]
) -> None:
    """End subscriptions; without a server each step would wait for 10 s, and the next connection
    does it.
    """
    client.leaving.update(subscriptions)
    if not client.is_connected:
        return
    try:
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            await step()
    except (TimeoutError, nats.errors.Error):
        log.debug("the connection was lost before a subscription could be drained")
    else:
        client.leaving.difference_update(subscriptions)


class NatsAnnouncement:
    """A worker's entry in discovery; see Announcement."""

    def __init__(self, client: BusClient, service: DescribedService) -> None:
        self._client = client
        self._service = service
        self.instance: str = service.id

    async def withdraw(self) -> None:
        """Stop replying to discovery."""
        await _leave(self._client, self._service.subscriptions, self._service.stop)


class NatsSubscription:
    """A subscription to one subject; see Subscription."""

    def __init__(self, client: BusClient, subscription: Subscription) -> None:
        self._client = client
        self.subscription = subscription

    async def drain(self) -> None:
        """Stop delivery, after what was received."""
        await _leave(self._client, [self.subscription], self.subscription.drain)

    async def unsubscribe(self) -> None:
        """Stop delivery at once."""
        await _leave(self._client, [self.subscription], self.subscription.unsubscribe)

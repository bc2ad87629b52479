"""Subscriptions and announcements on NATS, which end quickly also while there is no server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.micro.service import Service

__all__ = ["LEAVE_TIMEOUT_S", "NatsAnnouncement", "NatsSubscription"]

log = logging.getLogger("searchbus.bus")

LEAVE_TIMEOUT_S = 5.0


async def _bounded(client: Client, leave: Callable[[], Awaitable[Any]]) -> None:
    """Run a step of leaving while connected; without a server each would wait for 10 s."""
    if not client.is_connected:
        return
    try:
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            await leave()
    except (TimeoutError, nats.errors.Error):
        log.debug("the connection was lost before a subscription could be drained")


class NatsAnnouncement:
    """A worker's entry in discovery; see Announcement."""

    def __init__(self, client: Client, service: Service) -> None:
        self._client = client
        self._service = service
        self.instance: str = service.id

    async def withdraw(self) -> None:
        """Stop replying to discovery."""
        await _bounded(self._client, self._service.stop)


class NatsSubscription:
    """A subscription to one subject; see Subscription."""

    def __init__(self, client: Client, subscription: Any) -> None:
        self._client = client
        self._subscription = subscription

    async def drain(self) -> None:
        """Stop delivery, after what was received."""
        await _bounded(self._client, self._subscription.drain)

    async def unsubscribe(self) -> None:
        """Stop delivery at once."""
        await _bounded(self._client, self._subscription.unsubscribe)

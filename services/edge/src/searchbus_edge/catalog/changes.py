"""Notifications of changed lists to clients on `subscriptions/listen` (revision 2026-07-28)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)

__all__ = ["ListChanges"]

log = logging.getLogger("searchbus.edge")


class ListChanges:
    """Publishes changes; `handler` serves the method.

    Attributes:
        on_change: called as well, for a client of a revision without that method.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._published = InMemorySubscriptionBus()
        self._tasks: set[asyncio.Task[None]] = set()
        self.handler = ListenHandler(self._published)

    def notify(self) -> None:
        """Tell every listening client that tools, prompts and resources have changed."""
        log.info("the lists of tools, prompts and resources have changed")
        self.on_change()
        task = asyncio.get_running_loop().create_task(self._publish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End the open streams: they would hold the server's shutdown for its whole grace time."""
        self.handler.close()

    async def _publish(self) -> None:
        events: tuple[Any, ...] = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
        for event in events:
            await self._published.publish(event)

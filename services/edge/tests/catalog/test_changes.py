"""Changed lists are published to clients that listen."""

from __future__ import annotations

import asyncio

from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from searchbus_edge.catalog.changes import ListChanges


async def test_change_is_published_for_each_list():
    """In a task: the directory does not wait for clients."""
    changes = ListChanges()
    seen = []
    changes._published.subscribe(seen.append)
    changes.notify()
    assert seen == []
    while changes._tasks:
        await asyncio.sleep(0)
    kinds = [type(event) for event in seen]
    assert kinds == [ToolsListChanged, PromptsListChanged, ResourcesListChanged]


async def test_close_without_listeners_is_harmless():
    """At the end of every edge."""
    changes = ListChanges()
    changes.close()
    changes.close()

"""Endpoints open at their first request and close together."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_edge.bootstrap import open_edge
from searchbus_edge.settings import EdgeSettings


@pytest.fixture
async def edge(bus, directory, tmp_path):
    async with open_edge(bus, EdgeSettings(_env_file=None, data_dir=tmp_path)) as edge:
        yield edge


async def test_toolset_of_the_registry_has_an_endpoint(edge):
    """One each, also when several requests open it at once."""
    first, second = await asyncio.gather(
        edge.endpoints.get("dictionary"), edge.endpoints.get("dictionary")
    )
    assert first is second
    assert first is not await edge.endpoints.get(None)
    assert await edge.endpoints.get("absent") is None


async def test_endpoints_close_with_the_edge(bus, directory, tmp_path):
    """No task is left behind."""
    before = asyncio.all_tasks()
    async with open_edge(bus, EdgeSettings(_env_file=None, data_dir=tmp_path)) as edge:
        await edge.endpoints.get(None)
        await edge.endpoints.get("dictionary")
        assert len(asyncio.all_tasks()) > len(before)
    await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() - before if "hold" in repr(task.get_coro())]
    assert left == []

"""Cancelling by a notification, on the same edge and over the bus."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import httpx
import pytest

from searchbus_bus import MemoryBroker
from searchbus_edge.mcp.running import RunningRequests
from searchbus_testing import until


class Edges:
    """Edges on one bus, and work that runs until it is cancelled."""

    def __init__(self):
        self.broker = MemoryBroker()
        self.started = 0

    async def open(self, key=b"shared"):
        edge = RunningRequests(self.broker.connect(), key, service="connector")
        await edge.start()
        return edge

    async def run(self, edge, caller, request_id, *, finished=False):
        answer = SimpleNamespace(finished=finished)
        task = asyncio.create_task(edge.run(caller, request_id, self._work(), answer))
        expected = self.started + 1
        await until(lambda: self.started == expected)
        return task

    async def _work(self):
        self.started += 1
        await asyncio.Event().wait()


@pytest.fixture
def edges():
    return Edges()


async def test_a_request_is_cancelled_by_its_caller_and_id(edges):
    """Not by another caller, nor by another id; 1 and "1" are different ids."""
    edge = await edges.open()
    task = await edges.run(edge, "alice", 1)
    for caller, request_id in (("bob", 1), ("alice", 2), ("alice", "1"), ("alice", None)):
        await edge.cancel(caller, request_id)
    await asyncio.sleep(0.01)
    assert not task.done()
    await edge.cancel("alice", 1)
    assert await task is False


async def test_a_request_whose_response_is_being_sent_is_not_cancelled(edges):
    """Otherwise a second response would be written into the first."""
    edge = await edges.open()
    task = await edges.run(edge, "alice", 1, finished=True)
    await edge.cancel("alice", 1)
    await asyncio.sleep(0.01)
    assert not task.done()


async def test_another_edge_passes_the_notification_on(edges):
    """With a hash that only edges can make."""
    first, second = await edges.open(), await edges.open()
    stranger = await edges.open(b"other key")
    task = await edges.run(first, "alice", "x")
    await stranger.cancel("alice", "x")
    await asyncio.sleep(0.01)
    assert not task.done()
    await second.cancel("alice", "x")
    assert await task is False


async def test_names_are_made_once_for_each_request_that_runs(edges, monkeypatch):
    """However many cancellations of others come; nothing is kept of requests that have ended."""
    first, second = await edges.open(), await edges.open()
    tasks = [await edges.run(first, "alice", number) for number in range(5)]
    made = []
    name = first._name
    monkeypatch.setattr(first, "_name", lambda *key: made.append(key) or name(*key))
    for number in range(10):
        await second.cancel("bob", number)
    await second.cancel("alice", 0)
    assert await tasks.pop(0) is False
    assert sorted(made) == [("alice", number) for number in range(5)]
    for number in range(1, 5):
        await second.cancel("alice", number)
    assert await asyncio.gather(*tasks) == [False] * 4
    assert first._names == type(first._names)()


async def test_a_malformed_notification_is_ignored_logged_and_counted(edges, monkeypatch, caplog):
    """It cancels nothing."""
    counted = []
    monkeypatch.setattr("searchbus_bus.telemetry.count_error", counted.append)
    edge = await edges.open()
    task = await edges.run(edge, "alice", 1)
    await edge._bus.transport.publish(edge._subject, b"[]")
    await until(lambda: counted == ["cancel"])
    assert "is malformed and ignored" in caplog.text
    assert not task.done()
    await edge.cancel("alice", 1)
    assert await task is False


async def test_two_requests_of_one_id_are_left_alone(edges):
    """They may be of two clients behind one address."""
    edge = await edges.open()
    tasks = [await edges.run(edge, "127.0.0.1", 1) for _ in range(2)]
    await edge.cancel("127.0.0.1", 1)
    await asyncio.sleep(0.01)
    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_cancellation_from_outside_goes_on(edges):
    """A server that stops cancels too; afterwards the id is free."""
    edge = await edges.open()
    task = await edges.run(edge, "alice", 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await edge.cancel("alice", 1)
    again = await edges.run(edge, "alice", 1)
    await edge.cancel("alice", 1)
    assert await again is False


async def test_a_client_of_an_older_revision_cancels_a_call(running):
    """The worker stops, and the call is answered with an error."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
    }
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "slow"}}
    cancel = {
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5},
    }  # fmt: skip
    async with httpx.AsyncClient(timeout=120, headers=headers) as http:
        answer = asyncio.create_task(http.post(f"{running.url}/mcp", json=call))
        await until(lambda: running.dictionary.started)
        assert (await http.post(f"{running.url}/mcp", json=cancel)).status_code == 202
        assert "cancelled" in (await answer).json()["error"]["message"]
        await until(lambda: running.dictionary.cancelled)

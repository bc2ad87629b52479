"""Workers leave the bus all the time while requests come: each of them is answered."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from searchbus_bus import Bus, Call, Serving, Worker, connect, endpoint
from searchbus_contracts import Fault

pytestmark = pytest.mark.slow

CALLERS = 24
SECONDS = 10.0
DEADLINE_S = 60.0
"""Long, so that only a request that was lost reaches it: it is neither watched nor sent again."""


class Work(msgspec.Struct):
    """Nothing to do."""


class Echo:
    """Replies at once."""

    @endpoint
    async def say(self, call: Call, request: Work) -> Work:
        """Return the request."""
        return request


async def serve(url: str) -> tuple[Bus, Serving]:
    """A worker with a connection of its own."""
    bus = await connect(url, name="worker")
    worker = Worker("echo", max_in_flight=256)
    worker.add(Echo())
    return bus, await bus.serve(worker)


async def replace_a_worker(url: str, workers: list[tuple[Bus, Serving]]) -> None:
    """The successor is up before the first worker is drained."""
    workers.append(await serve(url))
    bus, serving = workers.pop(0)
    await serving.drain()
    await bus.close()


async def stand_by(url: str, workers: list[tuple[Bus, Serving]]) -> None:
    """A worker leaves the queue group and joins it again; the others stay."""
    workers.append(workers.pop(0))
    _, serving = workers[0]
    await serving.step_out()
    await serving.step_in()


@pytest.mark.parametrize("change", [replace_a_worker, stand_by])
async def test_no_request_is_lost_while_workers_leave(own_nats_server, change):
    """A request that the server sends to a worker that leaves is one that the worker still gets."""
    url = own_nats_server().url
    workers = [await serve(url) for _ in range(2)]
    caller = await connect(url, name="caller")
    outcomes: Counter[str] = Counter()
    leaving = True

    async def call() -> None:
        while leaving:
            try:
                await caller.request(
                    caller.subjects.endpoint("echo", "say"), Work(), Work, service="echo",
                    timeout_s=DEADLINE_S, idempotent=False,
                )  # fmt: skip
                outcomes["answer"] += 1
            except Fault as fault:
                outcomes[str(fault.code)] += 1

    callers = [asyncio.create_task(call()) for _ in range(CALLERS)]
    end_s = asyncio.get_running_loop().time() + SECONDS
    changes = 0
    while asyncio.get_running_loop().time() < end_s:
        await change(url, workers)
        changes += 1
    leaving = False
    await asyncio.gather(*callers)
    assert outcomes.keys() == {"answer"}, (outcomes, changes)
    for bus, serving in workers:
        await serving.drain()
        await bus.close()
    await caller.close()

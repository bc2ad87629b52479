"""Each remedy against a fault, and the same scenario without it: it meets its gate, and misses it.

The gates are those of the rows of `tests/chaos`, on the virtual clock.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from searchbus_bus import Bus, Call, Directory, Worker, endpoint
from searchbus_bus.client import fleet, inbox
from searchbus_bus.client import requester as requests
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import IngestReply, IngestRequest, IngestResult
from searchbus_contracts.retrieval import ListReply, ListRequest
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.mcp.running import RunningRequests
from searchbus_edge.settings import EdgeSettings
from searchbus_ingest import sending
from searchbus_ingest.sources.item import Item, make_document
from searchbus_runtime import Health

from .world import World, simulate

SEED = 7


class Work(msgspec.Struct):
    """Takes so many seconds."""

    seconds: float = 0.0


class Done(msgspec.Struct):
    """The reply."""


class Sim:
    """Works for as long as it is asked to."""

    def __init__(self) -> None:
        self.started = 0

    @endpoint
    async def work(self, call: Call, request: Work) -> Done:
        """Wait."""
        self.started += 1
        await asyncio.sleep(request.seconds)
        return Done()


async def start(broker: Any, **options: Any) -> tuple[Bus, Sim]:
    bus, sim = broker.connect(), Sim()
    worker = Worker("sim", **options)
    worker.add(sim)
    await bus.serve(worker)
    return bus, sim


async def ask(caller: Bus, seconds: float = 0.0, *, timeout_s: float = 30.0) -> tuple[str, float]:
    """The outcome of a request and how long it took."""
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    outcome = "answer"
    try:
        await caller.request(
            caller.subjects.endpoint("sim", "work"), Work(seconds), Done, service="sim",
            timeout_s=timeout_s,
        )  # fmt: skip
    except Fault as fault:
        outcome = str(fault.code)
    return outcome, loop.time() - started_s


def hang(broker: Any, bus: Bus) -> None:
    """The process stands still: its subscriptions stay, and nothing comes back."""

    async def ignore(*_: Any, **__: Any) -> None:
        pass

    bus.transport.publish = ignore  # type: ignore[method-assign]
    for subscription in broker.subscriptions:
        if subscription.owner is bus.transport:
            subscription._callback = ignore


# The queue before the slots (row 6)

SLOTS, WORK_S = 4, 0.1
CAPACITY_PER_S = 2 * SLOTS / WORK_S


async def load(world: World, times_capacity: float, **queue: int) -> tuple[float, float]:
    """Requests at random times for two workers: shares of the capacity, and of the requests, that
    were answered.
    """
    broker = world.broker()
    for _ in range(2):
        await start(broker, max_in_flight=SLOTS, **queue)
    caller = broker.connect()
    tasks = []
    seconds = 30.0
    end_s = world.loop.time() + seconds
    while world.loop.time() < end_s:
        await asyncio.sleep(world.chance.expovariate(times_capacity * CAPACITY_PER_S))
        tasks.append(asyncio.create_task(ask(caller, WORK_S)))
    outcomes = Counter(outcome for outcome, _ in await asyncio.gather(*tasks))
    assert outcomes.keys() <= {"answer", "overloaded"}
    answers = outcomes["answer"]
    return answers / (CAPACITY_PER_S * seconds), answers / len(tasks)


@pytest.mark.slow
def test_a_short_queue_keeps_slots_busy():
    """Of requests at exactly the capacity few are refused, and at one and a half times as many the
    whole capacity is used. Without the queue a fifth is refused, and slots are left empty.
    """
    used, _ = simulate(lambda world: load(world, 1.5), seed=SEED)
    _, answered = simulate(lambda world: load(world, 1.0), seed=SEED)
    assert used > 0.9
    assert answered > 0.86
    used_without, _ = simulate(lambda world: load(world, 1.5, max_waiting=0), seed=SEED)
    _, answered = simulate(lambda world: load(world, 1.0, max_waiting=0), seed=SEED)
    assert used_without < used - 0.08
    assert answered < 0.86


# The grace of a lost connection (row 4)


async def lost_connection(world: World, away_s: float, **options: float) -> tuple[int, float]:
    """The bus is away for a while: requests that failed, and the longest time of one."""
    broker = world.broker()
    await start(broker)
    caller = broker.connect(**options)
    tasks = []
    for number in range(40):
        tasks.append(asyncio.create_task(ask(caller)))
        await asyncio.sleep(0.1)
        if number == 10:
            caller.transport.sever()
            world.loop.call_later(away_s, caller.transport.restore)
    outcomes = await asyncio.gather(*tasks)
    return sum(o != "answer" for o, _ in outcomes), max(took_s for _, took_s in outcomes)


def test_requests_wait_for_a_bus_that_restarts():
    """For a second, without a failure."""
    failed, _ = simulate(lambda world: lost_connection(world, 1.0), seed=SEED)
    assert failed == 0
    failed, _ = simulate(
        lambda world: lost_connection(world, 1.0, reconnect_grace_s=0.0), seed=SEED
    )
    assert failed >= 9


def test_requests_do_not_wait_for_a_bus_that_stays_away():
    """They fail long before their deadlines of thirty seconds."""
    _, longest_s = simulate(lambda world: lost_connection(world, 60.0), seed=SEED)
    assert longest_s < 3
    _, longest_s = simulate(
        lambda world: lost_connection(world, 60.0, reconnect_grace_s=600.0), seed=SEED
    )
    assert longest_s >= 30


# Acknowledgements and pings (rows 1 and 3)


async def lose_worker(world: World, *, hangs: bool, workers: int = 3) -> list[tuple[str, float]]:
    """A worker is lost while requests run: what becomes of those."""
    broker = world.broker()
    buses = [(await start(broker))[0] for _ in range(workers)]
    caller = broker.connect()
    directory = Directory(caller)
    await directory.start()
    calls = [asyncio.create_task(ask(caller, 0.5)) for _ in range(12)]
    await asyncio.sleep(0.3)
    if hangs:
        hang(broker, buses[0])
    else:
        buses[0].transport.sever()
    outcomes = await asyncio.gather(*calls)
    await directory.close()
    await caller.close()
    return outcomes


@pytest.mark.parametrize("hangs", [False, True])
def test_requests_of_a_lost_worker_are_asked_again_elsewhere(hangs, monkeypatch):
    """In seconds. Without pings they wait for their deadlines."""
    outcomes = simulate(lambda world: lose_worker(world, hangs=hangs), seed=SEED)
    assert {outcome for outcome, _ in outcomes} == {"answer"}
    assert max(took_s for _, took_s in outcomes) < 6
    monkeypatch.setattr(inbox, "SILENT_S", float("inf"))
    outcomes = simulate(lambda world: lose_worker(world, hangs=hangs), seed=SEED)
    assert ("deadline_exceeded", 30) in [(o, round(took_s)) for o, took_s in outcomes]


async def long_work(world: World) -> tuple[list[tuple[str, float]], int]:
    """Requests that take long, of healthy workers: their outcomes, and how often one was started."""
    broker = world.broker()
    sims = [(await start(broker))[1] for _ in range(3)]
    caller = broker.connect()
    directory = Directory(caller)
    await directory.start()
    outcomes = await asyncio.gather(*(ask(caller, 10.0) for _ in range(12)))
    await directory.close()
    return outcomes, sum(sim.started for sim in sims)


def test_work_that_takes_long_is_done_once(monkeypatch):
    """Without acknowledgements it looks lost, is asked for twice, and fails."""
    outcomes, started = simulate(long_work, seed=SEED)
    assert ({outcome for outcome, _ in outcomes}, started) == ({"answer"}, 12)
    monkeypatch.setattr(requests, "_ACK_AFTER_MS", "never")
    outcomes, started = simulate(long_work, seed=SEED)
    assert started > 12


async def only_worker_hangs(world: World) -> list[tuple[str, float]]:
    """It hangs with a request, and gets another one."""
    broker = world.broker()
    bus, _ = await start(broker)
    caller = broker.connect()
    directory = Directory(caller)
    await directory.start()
    call = asyncio.create_task(ask(caller, 0.5, timeout_s=30.0))
    await asyncio.sleep(0.3)
    hang(broker, bus)
    outcomes = [await call, await ask(caller, timeout_s=30.0)]
    # The server drops a connection that leaves pings unanswered.
    bus.transport.sever()
    outcomes.append(await ask(caller, timeout_s=5.0))
    await directory.close()
    await caller.close()
    return outcomes


def test_requests_of_an_only_worker_that_hangs_end_long_before_their_deadlines(monkeypatch):
    """And once its connection is gone, at once. Without the longest ping they wait."""
    first, second, third = simulate(only_worker_hangs, seed=SEED)
    assert first[0] == second[0] == third[0] == "unavailable"
    assert max(first[1], second[1]) < 6
    assert third[1] < 1
    monkeypatch.setattr(fleet, "HUNG_S", float("inf"))
    first, second, _ = simulate(only_worker_hangs, seed=SEED)
    assert [(o, round(took_s)) for o, took_s in (first, second)] == [("deadline_exceeded", 30)] * 2


class Asks:
    """Asks the service that hangs, as a composite does."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.started = 0

    @endpoint
    async def work(self, call: Call, request: Work) -> Done:
        """Ask."""
        self.started += 1
        subject = self._bus.subjects.endpoint("sim", "work")
        return await self._bus.request(subject, request, Done, service="sim", timeout_s=30.0)


async def service_behind_hangs(world: World) -> tuple[str, float, int]:
    """The outcome of a request, its time, and how often the worker in front began it."""
    broker = world.broker()
    hung, _ = await start(broker)
    front, caller = broker.connect(), broker.connect()
    asks = Asks(front)
    worker = Worker("front")
    worker.add(asks)
    await front.serve(worker)
    hang(broker, hung)
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(Fault) as caught:
        await caller.request(
            caller.subjects.endpoint("front", "work"), Work(), Done, service="front", timeout_s=60.0
        )
    took_s = asyncio.get_running_loop().time() - started_s
    await front.close()
    await caller.close()
    return str(caught.value.code), took_s, asks.started


def test_a_service_behind_another_that_hangs_is_asked_once(monkeypatch):
    """Its failure is not taken for a refusal by the worker in front."""
    code, took_s, started = simulate(service_behind_hangs, seed=SEED)
    assert (code, started) == ("unavailable", 1)
    assert took_s < 6
    monkeypatch.setattr(requests, "_REFUSED_WITHIN_S", float("inf"))
    assert simulate(service_behind_hangs, seed=SEED)[2] == 2


# Notifications of a cancellation at another edge


async def cancel_elsewhere(world: World, *, started: bool) -> float:
    """A request of a minute is cancelled by a notification at another edge: how long it runs."""
    broker = world.broker()
    edges = [RunningRequests(broker.connect(), b"key", service="connector") for _ in range(2)]
    if started:
        for edge in edges:
            await edge.start()
    began_s = world.loop.time()
    unsent = SimpleNamespace(finished=False)
    running = asyncio.create_task(edges[0].run("alice", 1, asyncio.sleep(60), unsent))
    await asyncio.sleep(0.1)
    await edges[1].cancel("alice", 1)
    await running
    return world.loop.time() - began_s


def test_a_cancellation_at_another_edge_ends_the_request():
    """Without the way over the bus it runs to its end."""
    assert simulate(lambda world: cancel_elsewhere(world, started=True), seed=SEED) < 1
    assert simulate(lambda world: cancel_elsewhere(world, started=False), seed=SEED) == 60


# Documents sent again


class Retrieval:
    """Stores documents, slowly."""

    def __init__(self, stored: set[str]) -> None:
        self._stored = stored

    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        """Nothing is stored."""
        raise Fault(ErrorCode.NOT_FOUND, "There is no collection.")

    @endpoint
    async def ingest(self, call: Call, request: IngestRequest) -> IngestReply:
        """Takes a second a request."""
        await asyncio.sleep(1.0)
        self._stored |= {document.document_id for document in request.documents}
        return IngestReply(
            results=tuple(
                IngestResult(document_id=d.document_id, outcome="stored", chunks=len(d.chunks))
                for d in request.documents
            )
        )


def _items() -> Iterator[Item]:
    for number in range(20):
        name = f"d{number}"
        yield make_document(
            name, collection="c", source_id=name, title=name, text=f"Whales {number}."
        )


async def ingest(world: World) -> tuple[int, float]:
    """Retrieval dies while documents are sent and is back after ten seconds: how many are stored,
    and how long it took.
    """
    broker = world.broker()
    stored: set[str] = set()

    async def serve() -> Bus:
        bus = broker.connect()
        worker = Worker("retrieval")
        worker.add(Retrieval(stored))
        await bus.serve(worker)
        return bus

    first = await serve()
    began_s = world.loop.time()
    sending_all = asyncio.create_task(sending.send(broker.connect(), "c", _items()))
    await asyncio.sleep(3.5)
    first.transport.sever()
    await asyncio.sleep(10)
    await serve()
    try:
        await sending_all
    except* Fault:
        pass
    return len(stored), world.loop.time() - began_s


def test_an_ingest_goes_on_when_the_service_is_back(monkeypatch):
    """Without patience it ends, and most is not stored."""
    monkeypatch.setattr(sending, "BATCH_CHUNKS", 2)
    stored, took_s = simulate(ingest, seed=SEED)
    assert stored == 20
    assert took_s < 60
    monkeypatch.setattr(sending, "PATIENCE_S", 0.0)
    stored, _ = simulate(ingest, seed=SEED)
    assert stored < 20


# Readiness


async def absent_service(world: World, folder: Any) -> tuple[bool, bool, str]:
    """One of two services is away: whether the edge is ready; whether it would be if it asked for
    every service; and what a call of the other service gets.
    """
    broker = world.broker()
    await start(broker)
    settings = EdgeSettings(_env_file=None, data_dir=folder, required_services=("absent", "sim"))
    async with open_edge(broker.connect(), settings) as edge:
        await edge.directory.refresh()
        health, strict = Health(), Health()
        health.add_readiness("catalogs", edge.ready)
        strict.add_readiness("services", lambda: _all_there(edge))
        ready, strictly = await health.ready(), await strict.ready()
        outcome, _ = await ask(edge.bus)
    return all(ready.values()), all(strictly.values()), outcome


async def _all_there(edge: Any) -> bool:
    return not edge.away()


def test_an_absent_service_takes_no_other_with_it(tmp_path):
    """An edge that waits for every service would answer no calls of those that are there."""
    ready, strictly, outcome = simulate(lambda world: absent_service(world, tmp_path), seed=SEED)
    assert outcome == "answer"
    assert ready
    assert not strictly

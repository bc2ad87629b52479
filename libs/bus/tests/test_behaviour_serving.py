"""What a worker may rely on, with both transports: its limit, queue group, drain, health, discovery."""

from __future__ import annotations

import asyncio

from searchbus_testing import until

from .echo import Echo, EchoReply, call_echo, fault_of, start


async def test_requests_run_side_by_side_and_the_excess_is_shed(connect_bus):
    """Up to max_in_flight requests run at once; one more is answered overloaded at once."""
    echo = Echo(max_in_flight=4, max_waiting=0)
    serving = await start(await connect_bus(), echo)
    bus = await connect_bus()
    running = [asyncio.create_task(call_echo(bus, "hold")) for _ in range(4)]
    await until(lambda: serving.in_flight == 4)
    fault = await fault_of(call_echo(bus))
    assert fault.code == "overloaded"
    assert fault.failure.retry_after_ms == 200
    echo.released.set()
    assert [reply.by for reply in await asyncio.gather(*running)] == ["echo"] * 4


async def test_two_workers_share_the_queue_group(connect_bus):
    """Each request reaches exactly one of a service's workers, and both get some."""
    echoes = [Echo("a"), Echo("b")]
    for echo in echoes:
        await start(await connect_bus(), echo)
    bus = await connect_bus()
    replies = await asyncio.gather(*(call_echo(bus) for _ in range(60)))
    assert {reply.by for reply in replies} == {"a", "b"}
    assert echoes[0].started + echoes[1].started == 60


async def test_shed_request_is_retried_on_another_worker(connect_bus):
    """overloaded from one worker is tried once more, and another may take it."""
    full, free = Echo("full", max_in_flight=1, max_waiting=0), Echo("free", max_in_flight=64)
    first = await start(await connect_bus(), full)
    bus = await connect_bus()
    blocker = asyncio.create_task(call_echo(bus, "hold"))
    await until(lambda: first.in_flight == 1)
    await start(await connect_bus(), free)
    outcomes = await asyncio.gather(
        *(call_echo(bus) for _ in range(40)), return_exceptions=True
    )  # each fails only when both of its attempts met the full worker
    assert sum(isinstance(o, EchoReply) for o in outcomes) > 20
    assert first.shed > 0
    blocker.cancel()


async def test_drain_answers_everything_it_received(connect_bus):
    """Requests under way when the drain starts get replies; later ones find another worker."""
    leaving, staying = Echo("leaving"), Echo("staying")
    serving = await start(await connect_bus(), leaving)
    bus = await connect_bus()
    under_way = [asyncio.create_task(call_echo(bus, fields={"wait_s": 0.3})) for _ in range(50)]
    await until(lambda: leaving.started == 50)
    await start(await connect_bus(), staying)
    drained = asyncio.create_task(serving.drain())
    later = [asyncio.create_task(call_echo(bus)) for _ in range(50)]
    assert [reply.by for reply in await asyncio.gather(*under_way)] == ["leaving"] * 50
    assert len(await asyncio.gather(*later)) == 50
    await drained
    assert (await call_echo(bus)).by == "staying"


async def test_drain_answers_unavailable_for_what_takes_too_long(connect_bus):
    """A request that takes longer than the drain gets a typed failure."""
    echo = Echo()
    serving = await start(await connect_bus(), echo)
    bus = await connect_bus()
    task = asyncio.create_task(call_echo(bus, fields={"wait_s": 9}, timeout_s=120))
    await until(lambda: echo.started == 1)
    await serving.drain(timeout_s=0.1)
    assert (await fault_of(task)).code == "unavailable"


async def test_health_is_a_request_to_the_own_instance(connect_bus):
    """A serving worker is healthy; a drained one is not."""
    serving = await start(await connect_bus(), Echo())
    assert await serving.healthy(timeout_s=60)
    await serving.drain()
    assert not await serving.healthy(timeout_s=0.3)


async def test_busy_worker_is_healthy_and_its_pings_are_no_requests(connect_bus):
    """At its limit it refuses requests, but replies to pings."""
    serving = await start(await connect_bus(), Echo(max_in_flight=1))
    bus = await connect_bus()
    task = asyncio.create_task(call_echo(bus, "hold"))
    await until(lambda: serving.in_flight == 1)
    assert await serving.healthy(timeout_s=120)
    assert (serving.shed, serving.in_flight) == (0, 1)
    task.cancel()


async def test_workers_are_discovered_with_their_catalogue(connect_bus):
    """Discovery lists every worker with its catalogue's hash."""
    bus = await connect_bus()
    before = {worker.instance for worker in await bus.workers()}
    servings = [await start(await connect_bus(), Echo()) for _ in range(2)]
    found = [worker for worker in await bus.workers() if worker.instance not in before]
    assert {worker.instance for worker in found} == {s.instance for s in servings}
    assert {worker.catalog for worker in found} == {Echo().worker.catalog.digest}
    assert {worker.service for worker in found} == {"echo"}

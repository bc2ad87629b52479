"""Who is there: the directory's rounds, events, pings, and services that are away."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any

import pytest
from nats.aio.msg import Msg
from opentelemetry.metrics import CallbackOptions

from searchbus_bus import Directory, MemoryBroker, connect
from searchbus_bus.catalog.directory import _away
from searchbus_bus.catalog.services import Instance
from searchbus_bus.client.discovery import EVERYONE
from searchbus_contracts import CatalogEvent, Fault, ToolCall, ToolReply, encode
from searchbus_testing import until

from .tool_workers import names, tool_worker


@pytest.fixture
async def quiet_directory(connect_bus):
    """One whose rounds a test starts."""
    directory = Directory(await connect_bus("directory"), grace_s=0.05, refresh_s=3600)
    await directory.start()
    yield directory
    await directory.close()


async def test_events_cost_no_round(connect_bus, quiet_directory):
    """Every worker that starts would make every follower ask all workers."""
    servings = [
        await (await connect_bus()).serve(tool_worker(f"s{number % 3}", f"t{number % 3}"))
        for number in range(12)
    ]
    await until(lambda: names(quiet_directory) == ["t0", "t1", "t2"])
    for serving in servings:
        await serving.drain()
    await until(lambda: not any(quiet_directory.present(f"s{number}") for number in range(3)))
    assert quiet_directory.rounds == 1


async def test_expected_service_that_is_busy_is_known_after_the_start(nats_server, monkeypatch):
    """It is late for the question to everyone, and slow with its reply to its own."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._START_PATIENCE_S", 60.0)
    respond = Msg.respond

    async def late(self: Msg, data: bytes) -> None:
        if self.subject != EVERYONE:
            await asyncio.sleep(0.5)  # longer than the others are waited for
            await respond(self, data)

    monkeypatch.setattr(Msg, "respond", late)
    prefix = f"t{secrets.token_hex(4)}"
    bus, asker = [await connect(nats_server.url, name=n, prefix=prefix) for n in ("busy", "asker")]
    await bus.serve(tool_worker("alpha", "one"))
    await bus.transport.flush()  # its event has been sent to those that follow
    directory = Directory(asker, expected=("alpha", "away"), refresh_s=3600)
    await directory.start()
    assert names(directory) == ["one"]
    assert [absence.service for absence in directory.absences] == ["away"]
    await directory.close()
    await bus.close()
    await asker.close()


async def test_instance_that_a_round_misses_is_pinged(connect_bus, quiet_directory, monkeypatch):
    """A busy worker that does not reply to discovery in time stays; one that is gone does not."""
    # A busy machine may take long for one; without a second one nobody waits for it.
    monkeypatch.setattr("searchbus_bus.catalog.directory._PINGS", 1)
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 5.0)
    busy, gone = await connect_bus(), await connect_bus()
    serving = await busy.serve(tool_worker("alpha", "one"))
    await gone.serve(tool_worker("beta", "two"))
    await until(lambda: quiet_directory.present("alpha") and quiet_directory.present("beta"))
    await serving._announcement.withdraw()
    await gone.transport.close()
    await quiet_directory.refresh()
    await until(lambda: not quiet_directory.present("beta"))
    await quiet_directory.refresh()
    await until(lambda: quiet_directory._probing.done())
    assert quiet_directory.present("alpha")


async def test_event_during_a_round_is_newer_than_the_replies(connect_bus, quiet_directory):
    """A worker that left meanwhile does not come back, one that came is not missed."""
    bus, follower = await connect_bus(), quiet_directory._bus
    leaving = await bus.serve(tool_worker("alpha", "one"))
    await until(lambda: quiet_directory.present("alpha"))
    workers = follower.workers

    async def meanwhile(**options: Any) -> Any:
        found = await workers(**options)
        await leaving.drain()
        await bus.serve(tool_worker("beta", "two"))
        await until(
            lambda: quiet_directory.present("beta") and not quiet_directory.present("alpha")
        )
        return found

    follower.workers = meanwhile
    await quiet_directory.refresh()
    assert quiet_directory.present("beta")
    assert not quiet_directory.present("alpha")
    assert quiet_directory._probing is None


async def test_lost_service_stays_listed_and_a_stopped_one_does_not(
    connect_bus, quiet_directory, monkeypatch
):
    """Whoever takes a service out stops it; a crash must not empty the lists."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.01)
    crashing = await connect_bus()
    await crashing.serve(tool_worker("alpha", "one"))
    serving = await (await connect_bus()).serve(tool_worker("beta", "two"))
    await until(lambda: names(quiet_directory) == ["one", "two"])
    await serving.drain()
    await crashing.transport.close()
    await quiet_directory.refresh()
    await until(lambda: not quiet_directory.present("alpha"))

    async with asyncio.timeout(60):
        while names(quiet_directory) != ["one"]:
            await quiet_directory.refresh()
    assert quiet_directory.listed("alpha")
    assert [(a.service, a.announced) for a in quiet_directory.absences] == [("alpha", False)]
    assert quiet_directory.absence("beta") is None


async def test_toolset_of_a_lost_service_goes_to_one_that_is_there(
    connect_bus, quiet_directory, monkeypatch
):
    """After the grace period of a restart, although the lost one stays listed."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.01)
    crashing = await connect_bus()
    await crashing.serve(tool_worker("zulu", "one", toolset="shared"))
    await until(lambda: quiet_directory.owner("shared") == "zulu")
    await (await connect_bus()).serve(tool_worker("alpha", "one", toolset="shared"))
    await until(lambda: quiet_directory.present("alpha") and len(quiet_directory.catalogs) == 2)
    assert quiet_directory.owner("shared") == "zulu"
    await crashing.transport.close()

    async with asyncio.timeout(60):
        while quiet_directory.owner("shared") != "alpha":
            await quiet_directory.refresh()


async def test_more_workers_are_asked_more_rarely(connect_bus, quiet_directory):
    """So that discovery costs a follower about the same at any number of workers."""
    quiet_directory._refresh_s = 5.0
    assert 4 <= quiet_directory._pause_s() <= 6
    for number in range(4000):
        quiet_directory._presence.put("many", f"i{number}", Instance("", 1))
    # Two replies each.
    assert 32 <= quiet_directory._pause_s() <= 48


async def test_rounds_are_rarer_while_nothing_changes(connect_bus, monkeypatch):
    """Up to four times. An event, or a request that reaches nobody, makes the next one soon."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._JITTER", (1.0, 1.0))
    waits_s: asyncio.Queue[float] = asyncio.Queue()
    woken: list[bool] = []

    async def waited(event: asyncio.Event, timeout_s: float) -> bool:
        waits_s.put_nowait(timeout_s)
        while not event.is_set() and not woken:
            await asyncio.sleep(0)
        return event.is_set() or woken.pop()

    monkeypatch.setattr("searchbus_bus.catalog.directory.wait_for_event", waited)
    bus = await connect_bus()
    await bus.serve(tool_worker("alpha", "one"))
    await bus.transport.flush(60)  # the directory, which subscribes later, does not get its event
    asker = await connect_bus("directory")
    directory = Directory(asker, refresh_s=100.0)
    await directory.start()
    directory._wake.clear()  # what the start has read
    for expected_s in (100, 200, 400, 400):
        assert await waits_s.get() == pytest.approx(expected_s, abs=20)
        woken.append(False)
    assert await waits_s.get() == pytest.approx(400, abs=20)
    await (await connect_bus()).serve(tool_worker("beta", "one"))
    assert await waits_s.get() == pytest.approx(100, abs=20)
    await directory.close()


async def test_a_request_that_reaches_nobody_makes_the_next_round_soon(connect_bus):
    asker = await connect_bus("directory")
    directory = Directory(asker, refresh_s=3600)
    await directory.start()
    directory._quiet = 4.0
    with pytest.raises(Fault):
        await asker.request(
            asker.subjects.tool("gone", "one"), ToolCall(tool="one"), ToolReply,
            service="gone", timeout_s=60,
        )  # fmt: skip
    await until(lambda: directory._quiet == 1.0)
    await directory.close()


async def test_failures_say_since_when_a_service_is_away(connect_bus, quiet_directory):
    """Of requests on the directory's bus, also for services that were never there."""
    # A busy machine may take longer than the grace period of the others.
    quiet_directory._presence.expected = frozenset({"alpha", "beta"})
    bus = quiet_directory._bus

    async def call(service: str) -> str:
        with pytest.raises(Fault) as caught:
            await bus.request(
                bus.subjects.tool(service, "one"), ToolCall(tool="one"), ToolReply,
                service=service, timeout_s=60,
            )  # fmt: skip
        assert caught.value.code == "unavailable"
        return caught.value.failure.message

    serving = await (await connect_bus()).serve(tool_worker("alpha", "one"))
    await until(lambda: quiet_directory.present("alpha"))
    await serving.drain()
    await until(lambda: not quiet_directory.present("alpha"))
    assert (await call("alpha")).startswith("The alpha service has been away since 20")
    assert "beta service has been seen yet" in await call("beta")
    assert "away" not in await call("gamma")


async def test_events_tell_as_much_as_discovery(connect_bus, quiet_directory):
    """A follower knows the same of a worker whichever came first."""
    bus = await connect_bus()
    serving = await bus.serve(tool_worker("alpha", "one"))
    await until(lambda: quiet_directory.present("alpha"))
    heard = quiet_directory.instances
    await quiet_directory.refresh()
    assert quiet_directory.instances == heard
    (instance,) = heard.values()
    assert instance.started_ms > 0
    # An event without metadata: what is known stays.
    subject = bus.subjects.catalog_event("alpha")
    event = CatalogEvent(
        event="changed", service="alpha", instance=serving.instance, catalog="c" * 32
    )
    await bus.transport.publish(subject, encode(event))
    expected = replace(instance, catalog="c" * 32)
    await until(lambda: [*quiet_directory.instances.values()] == [expected])


async def test_absences_are_measured(connect_bus, quiet_directory):
    """An alert needs them: whoever is away makes no other process unready."""
    here, away = (f"{name}-{secrets.token_hex(4)}" for name in ("here", "away"))
    quiet_directory._presence.expected = frozenset({here, away})
    await (await connect_bus()).serve(tool_worker(here, "one"))
    await until(lambda: quiet_directory.present(here))
    found = {o.attributes["worker"]: o.value for o in _away._observe(CallbackOptions())}
    assert found[away] == 1
    assert here not in found


async def test_announcements_without_end_fill_no_memory(
    connect_bus, quiet_directory, monkeypatch, caplog
):
    """Of instances that do not exist; the next round finds out."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._MOST_INSTANCES", 3)
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.01)
    bus = await connect_bus()
    events = (
        CatalogEvent(event="up", service="alpha", instance=f"i{number}", catalog="")
        for number in range(10)
    )
    for content in (*map(encode, events), b"{"):
        await bus.transport.publish(bus.subjects.catalog_event("alpha"), content)
    await until(lambda: "is malformed" in caplog.text)  # the last one
    assert quiet_directory.count("alpha") == 3
    await quiet_directory.refresh()
    await until(lambda: not quiet_directory.present("alpha"))


async def test_nobody_is_lost_because_this_process_lost_its_connection(monkeypatch):
    """The round and the pings were not heard by anyone."""
    monkeypatch.setattr("searchbus_bus.catalog.directory._PING_TIMEOUT_S", 0.01)
    broker = MemoryBroker()
    await broker.connect().serve(tool_worker("alpha", "one"))
    bus = broker.connect()
    directory = Directory(bus, refresh_s=3600)
    await directory.start()
    workers = bus.workers

    async def disconnecting(**options: Any) -> Any:
        bus.transport.sever()
        return []

    bus.workers = disconnecting
    await directory.refresh()
    await until(lambda: directory._probing.done())
    assert directory.present("alpha")
    bus.workers = workers
    bus.transport.restore()
    await directory.refresh()
    assert directory.present("alpha")
    await directory.close()

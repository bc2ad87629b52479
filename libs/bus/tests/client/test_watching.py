"""Workers that die or hang while they have requests; times are shortened."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Struct

from searchbus_bus import (
    Call,
    Directory,
    Hedge,
    InstanceGoneError,
    MemoryBroker,
    Request,
    Worker,
    endpoint,
)
from searchbus_bus.client import fleet, inbox, requester
from searchbus_bus.worker import intake
from searchbus_contracts import Fault
from searchbus_testing import until


class Ask(Struct):
    pass


class Answer(Struct):
    by: str


class Echo:
    """Answers once it is released."""

    def __init__(self, name):
        self.name = name
        self.started = 0
        self.released = asyncio.Event()
        self.worker = Worker("echo")
        self.worker.add(self)

    @endpoint
    async def say(self, call: Call, request: Ask) -> Answer:
        self.started += 1
        await self.released.wait()
        return Answer(self.name)


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(inbox, "SILENT_S", 0.05)
    monkeypatch.setattr(inbox, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(intake, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(requester, "_ACK_AFTER_MS", "10")
    monkeypatch.setattr(requester, "PING_TIMEOUT_S", 0.2)
    for name in ("CHECK_EVERY_S", "CONFIRM_S"):
        monkeypatch.setattr(fleet, name, 0.05)
    monkeypatch.setattr(fleet, "PING_AGAIN_S", 0.05)
    monkeypatch.setattr(fleet, "HUNG_S", 0.5)
    monkeypatch.setattr(fleet, "HUNG_EVERY_S", 0.05)


class Stack:
    """A caller that follows discovery, and workers on connections of their own.

    Args:
        follows: whether the caller does; services that call others do not.
    """

    def __init__(self, *names, follows=True):
        self.follows = follows
        self.broker = MemoryBroker()
        self.names = names
        self.caller = self.broker.connect()
        self.directory = Directory(self.caller)

    async def __aenter__(self):
        self.buses = {name: self.broker.connect() for name in self.names}
        self.echoes = {name: Echo(name) for name in self.names}
        self.servings = {
            name: await bus.serve(self.echoes[name].worker) for name, bus in self.buses.items()
        }
        if self.follows:
            await self.directory.start()
        return self

    async def __aexit__(self, *_):
        await self.directory.close()
        for echo in self.echoes.values():
            echo.released.set()

    def say(self, **options):
        return asyncio.create_task(
            self.caller.send(
                Request("sb.v1.echo.say", Ask(), Answer, service="echo", timeout_s=600.0, **options)
            )
        )

    async def holder(self):
        """The worker that has a request."""
        await until(lambda: any(echo.started for echo in self.echoes.values()))
        return next(name for name, echo in self.echoes.items() if echo.started)

    def kill(self, name):
        """The broker drops the connection, and nothing more comes from it."""
        self.buses[name].transport.sever()

    def hang(self, name):
        """The subscriptions stay, and nothing comes back."""
        transport = self.buses[name].transport
        for subscription in self.broker.subscriptions:
            if subscription.owner is transport:
                subscription._callback = _ignore

    def miss_pings(self, name, count=1):
        """The worker does not answer the next pings; returns the list of pings that it gets."""
        subject = f"sb.v1.ctl.ping.echo.{self.servings[name].instance}"
        (found,) = [s for s in self.broker.subscriptions if s.subject == subject]
        answer, pings = found._callback, []

        async def take(message):
            pings.append(message)
            if len(pings) > count:
                await answer(message)

        found._callback = take
        return pings

    def release(self, *but):
        for name, echo in self.echoes.items():
            if name not in but:
                echo.released.set()


async def _ignore(message):
    pass


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_what_a_lost_worker_had_is_asked_again_elsewhere(fault, follows):
    """Long before its deadline: the worker had acknowledged the request."""
    async with Stack("a", "b", follows=follows) as stack:
        request = stack.say()
        name = await stack.holder()
        await asyncio.sleep(0.1)  # acknowledged
        getattr(stack, fault)(name)
        stack.release(name)
        assert (await request).by != name


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_what_a_lost_worker_never_acknowledged_is_asked_again_elsewhere(fault, follows):
    """It was lost right after it received the request."""
    async with Stack("a", "b", follows=follows) as stack:
        request = stack.say()
        name = await stack.holder()
        getattr(stack, fault)(name)
        stack.release(name)
        assert (await request).by != name


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_a_worker_that_answers_the_second_ping_keeps_its_request(acknowledged):
    """It was only busy: the same work elsewhere would make all workers busier."""
    async with Stack("a", "b") as stack:
        request = stack.say()
        name = await stack.holder()
        await asyncio.sleep(0.1 if acknowledged else 0)
        pings = stack.miss_pings(name)
        await until(lambda: len(pings) > 2)
        stack.release()
        assert (await request).by == name
        assert sum(echo.started for echo in stack.echoes.values()) == 1


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize("fault", ["kill", "hang"])
async def test_what_is_lost_with_most_workers_reaches_the_one_that_is_left(fault, acknowledged):
    """They were behind one server, or on one machine."""
    async with Stack(*"abcdefgh") as stack:
        request = stack.say()
        name = await stack.holder()
        await asyncio.sleep(0.1 if acknowledged else 0)
        left = next(other for other in stack.names if other != name)
        for other in stack.names:
            if other != left:
                getattr(stack, fault)(other)
        stack.release(*(other for other in stack.names if other != left))
        assert (await request).by == left


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_what_may_not_be_repeated_fails_once_its_worker_is_gone(acknowledged):
    """And says that the work may have been done."""
    async with Stack("a", "b") as stack:
        request = stack.say(idempotent=False)
        name = await stack.holder()
        await asyncio.sleep(0.1 if acknowledged else 0)
        stack.kill(name)
        with pytest.raises(Fault, match="may have done the work") as caught:
            await request
        assert caught.value.code == "unavailable"
        assert sum(echo.started for echo in stack.echoes.values()) == 1


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_an_instance_that_alone_had_the_request_is_gone(acknowledged):
    """The caller learns that it had it, also where the instance never acknowledged it."""
    async with Stack("a", "b") as stack:
        request = stack.say(instance=stack.servings["a"].instance, instance_only=True)
        assert await stack.holder() == "a"
        await asyncio.sleep(0.1 if acknowledged else 0)
        stack.kill("a")
        with pytest.raises(InstanceGoneError) as caught:
            await request
        assert caught.value.received
        assert stack.echoes["b"].started == 0


@pytest.mark.parametrize("missed", [1, 2, 3])
async def test_who_does_not_say_that_it_is_there_was_perhaps_only_busy(missed, monkeypatch):
    """Nobody follows its service: only who is silent thrice is not there. Nobody else gets it."""
    async with Stack("a", follows=False) as stack:
        looked = []
        look = stack.caller.fleet._look

        async def busy(service):
            looked.append(service)
            return [] if len(looked) <= missed else await look(service)

        monkeypatch.setattr(stack.caller.fleet, "_look", busy)
        monkeypatch.setattr(intake, "_LOOK_EVERY_S", 600.0)  # and does not acknowledge either
        request = stack.say()
        await stack.holder()
        await until(lambda: len(looked) > 3 or request.done())
        assert request.done() is (missed == 3)
        stack.release()
        outcome = await asyncio.gather(request, return_exceptions=True)
        assert [isinstance(one, Fault) for one in outcome] == [missed == 3]
        assert stack.echoes["a"].started == 1


async def test_the_only_worker_is_gone_and_the_caller_is_told():
    """At once, rather than at the deadline."""
    async with Stack("a") as stack:
        request = stack.say()
        stack.kill(await stack.holder())
        with pytest.raises(Fault) as caught:
            await request
        assert caught.value.code == "unavailable"


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("acknowledged", [True, False])
async def test_the_only_worker_hangs_and_the_caller_is_told(acknowledged, idempotent, follows):
    """Long before its deadline; nobody else could answer."""
    async with Stack("a", follows=follows) as stack:
        request = stack.say(idempotent=idempotent)
        name = await stack.holder()
        await asyncio.sleep(0.1 if acknowledged else 0)
        stack.hang(name)
        message = "does not answer. " + ("Try again" if idempotent else "It may have done the work")
        with pytest.raises(Fault, match=message) as caught:
            await request
        assert (caught.value.code, caught.value.failure.retryable) == ("unavailable", idempotent)


@pytest.mark.parametrize("acknowledged", [True, False])
async def test_what_may_not_be_repeated_fails_once_its_worker_hangs(acknowledged):
    """Other workers are free, and do not get it. That the service is away says less."""
    async with Stack("a", "b", "c") as stack:
        stack.caller.explain_absences(lambda service: f"The {service} service has been away.")
        request = stack.say(idempotent=False)
        name = await stack.holder()
        await asyncio.sleep(0.1 if acknowledged else 0)
        stack.hang(name)
        with pytest.raises(Fault, match="may have done the work"):
            await request
        assert sum(echo.started for echo in stack.echoes.values()) == 1


async def test_a_worker_that_hangs_and_is_no_longer_listed_ends_the_request():
    """Discovery dropped it, and its subscriptions are still there."""
    async with Stack("a") as stack:
        stack.hang("a")
        stack.caller.fleet.follow("echo", [])
        with pytest.raises(Fault, match=r"(is gone|does not answer)\. Try again"):
            await stack.say()


@pytest.mark.parametrize("missed", [2, 4])
async def test_an_only_worker_that_answers_at_last_keeps_its_request(missed, monkeypatch):
    """It was busy; or pings were lost with the server that it was connected to, and it hangs no more."""
    monkeypatch.setattr(fleet, "HUNG_S", 60.0)
    async with Stack("a") as stack:
        request = stack.say()
        await stack.holder()
        pings = stack.miss_pings("a", missed)
        await until(lambda: len(pings) > missed + 1)
        stack.release()
        assert (await request).by == "a"
        assert stack.echoes["a"].started == 1


async def test_a_request_that_the_queue_group_loses_reaches_an_instance():
    """A server that hangs stays a member of the group; all workers answer at others by now."""
    async with Stack("a", "b") as stack:
        stack.release()
        for subscription in stack.broker.subscriptions:
            if subscription.queue and subscription.subject == "sb.v1.echo.say":
                subscription._callback = _ignore
        assert (await stack.say()).by in ("a", "b")


async def test_a_worker_that_takes_long_is_left_alone():
    """It acknowledges, and answers pings; nobody is asked twice."""
    async with Stack("a", "b") as stack:
        request = stack.say()
        await stack.holder()
        await asyncio.sleep(0.5)
        assert not request.done()
        stack.release()
        await request
        assert sum(echo.started for echo in stack.echoes.values()) == 1


async def test_a_worker_acknowledges_what_it_has_before_it_answers_a_ping(monkeypatch):
    """It may be too busy to do so in time, and is not taken for one that never got the request."""
    monkeypatch.setattr(intake, "_LOOK_EVERY_S", 600.0)
    async with Stack("a", "b") as stack:
        request = stack.say()
        await stack.holder()
        await asyncio.sleep(0.5)
        stack.release()
        await request
        assert sum(echo.started for echo in stack.echoes.values()) == 1


async def test_nobody_asks_an_instance_that_does_not_answer():
    """Until it answers again."""
    async with Stack("a", "b") as stack:
        stack.release()
        stack.hang("a")
        instance = stack.servings["a"].instance
        await stack.caller.fleet.check("echo", instance)
        replies = await asyncio.gather(*(stack.say() for _ in range(40)))
        assert {reply.by for reply in replies} == {"b"}


async def test_a_worker_that_drains_answers_pings_to_its_end():
    """Its request is not taken for lost."""
    async with Stack("a", "b") as stack:
        request = stack.say()
        name = await stack.holder()
        drain = asyncio.create_task(stack.servings[name].drain(600))
        await asyncio.sleep(0.5)
        stack.release()
        await drain
        assert (await request).by == name


async def test_a_worker_on_standby_is_not_asked_by_name():
    """Others are, and the queue group where there are none."""
    async with Stack("a", "b") as stack:
        stack.release()
        await stack.servings["a"].step_out()
        instance = stack.servings["a"].instance
        assert (await stack.say(instance=instance)).by == "b"
        await stack.servings["a"].step_in()
        await stack.servings["b"].step_out()
        assert (await stack.say(instance=instance)).by == "a"


async def test_hedged_reads_leave_a_worker_that_hangs_after_a_few(monkeypatch):
    """Second requests are few: without that, they are used up. Nothing is watched yet."""
    monkeypatch.setattr(inbox, "SILENT_S", 600.0)
    async with Stack("a", "b") as stack:
        stack.release()
        # Long enough that a busy machine uses up none before.
        hedge = Hedge(share=0.05, least_s=0.25)
        request = Request("sb.v1.echo.say", Ask(), Answer, service="echo", timeout_s=60.0)
        for _ in range(100):
            await stack.caller.send_hedged(request, hedge)
        stack.hang("a")
        while not stack.caller.fleet.avoids("echo"):
            assert (await stack.caller.send_hedged(request, hedge)).by == "b"
        assert hedge.hedged <= 5 + fleet.STRIKES
        picked = {stack.caller.fleet.pick("echo") for _ in range(50)}
        assert picked == {stack.servings["b"].instance}

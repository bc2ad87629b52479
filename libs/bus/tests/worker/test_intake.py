"""The queue before the slots of a worker: bounded by number and by time."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_bus.client.inbox import Inbox
from searchbus_bus.transport import Message
from searchbus_bus.worker import intake as admission
from searchbus_bus.worker.handling import Replies
from searchbus_bus.worker.intake import Admission, Membership
from searchbus_contracts import Actor
from searchbus_contracts.headers import ACK_MS, ACTOR
from searchbus_testing import until


class Slots:
    """An admission whose requests run until the test ends them."""

    def __init__(self, transport, **limits):
        self.transport = transport
        self.started = []
        self.ends = {}
        worker = Worker("echo", **limits)
        self.admission = Admission(worker, Replies(transport, Inbox(transport)), self._run)

    async def _run(self, message, handler, *, cancelled):
        name = message.headers["Req-Id"]
        self.started.append(name)
        self.ends[name] = asyncio.Event()
        await self.ends[name].wait()

    async def ask(self, *names, **headers):
        for name in names:
            message = Message("s", b"", f"_INBOX.{name}", {"Req-Id": name, **headers})
            self.admission.admit(message, self._unused)
        for _ in range(2):  # refusals are sent by tasks, too
            await asyncio.sleep(0)

    async def _unused(self, call, body):
        raise AssertionError

    def end(self, name):
        self.ends[name].set()

    def failures(self):
        """Failure codes by request."""
        return {
            m.subject.removeprefix("_INBOX."): m.headers["Nats-Service-Error-Code"]
            for m in self.transport.published
        }


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(admission, "MAX_WAIT_S", 600.0)


async def test_a_few_requests_wait_for_a_slot_in_the_order_they_came(transport, patient):
    """Those beyond the queue are refused at once."""
    slots = Slots(transport, max_in_flight=2, max_waiting=2)
    await slots.ask(*"abcde")
    assert slots.started == ["a", "b"]
    assert slots.failures() == {"e": "overloaded"}
    assert (slots.admission.shed, slots.admission.waiting) == (1, 2)
    slots.end("b")
    await until(lambda: slots.started == ["a", "b", "c"])
    slots.end("a")
    await until(lambda: slots.started == ["a", "b", "c", "d"])
    assert slots.admission.waiting == 0


async def test_a_request_that_waited_too_long_is_refused(transport, monkeypatch):
    """Another worker may have a free slot."""
    monkeypatch.setattr(admission, "MAX_WAIT_S", 0.01)
    slots = Slots(transport, max_in_flight=1, max_waiting=5)
    await slots.ask("a", "b")
    await until(lambda: slots.failures() == {"b": "overloaded"})
    slots.end("a")
    await until(lambda: slots.admission.in_flight == 0)
    assert slots.started == ["a"]


async def test_time_in_which_the_worker_stood_still_is_no_wait(transport, monkeypatch):
    """A slot is free in a moment. A request that stands still for a second time is refused."""
    monkeypatch.setattr(admission, "_LOOK_EVERY_S", 30.0)
    slots = Slots(transport, max_in_flight=1, max_waiting=5)
    await slots.ask("a", "b", "c")
    loop, stood_s = asyncio.get_running_loop(), 60.0
    now_s = loop.time
    monkeypatch.setattr(loop, "time", lambda: now_s() + stood_s)
    for _ in range(3):
        await asyncio.sleep(0)
    slots.end("a")
    await until(lambda: slots.started == ["a", "b"])
    stood_s += 60.0
    await until(lambda: slots.failures() == {"c": "overloaded"})


async def test_a_request_that_would_wait_too_long_is_refused_at_once(transport):
    """Judged by how long requests take and how many wait already."""
    slots = Slots(transport, max_in_flight=1, max_waiting=100)
    slots.admission._average_s = admission.MAX_WAIT_S * 0.6
    await slots.ask("a", "b", "c")
    assert slots.failures() == {"c": "overloaded"}


async def test_a_request_without_the_time_to_wait_is_refused_at_once(transport, patient):
    """Its deadline comes before its turn."""
    slots = Slots(transport, max_in_flight=1, max_waiting=100)
    slots.admission._average_s = 60.0
    await slots.ask("a")
    await slots.ask("b", **{"Timeout-Ms": "1000"})
    await slots.ask("c", **{"Timeout-Ms": "300000"})
    assert slots.failures() == {"b": "overloaded"}


async def test_a_cancelled_request_waits_no_longer(transport, patient):
    """It is answered and never starts."""
    slots = Slots(transport, max_in_flight=1, max_waiting=5)
    await slots.ask("a", "b")
    await slots.admission.cancel("b")
    assert slots.failures() == {"b": "cancelled"}
    assert slots.admission.waiting == 0


async def test_a_drain_finishes_what_waits(transport, patient):
    """What does not end in time is answered `unavailable`."""
    slots = Slots(transport, max_in_flight=1, max_waiting=5)
    await slots.ask("a", "b", "c")
    drain = asyncio.create_task(slots.admission.drain(600))
    await asyncio.sleep(0)
    slots.end("a")
    await until(lambda: slots.started == ["a", "b"])
    assert not drain.done()
    drain.cancel()
    await slots.admission.drain(0)
    await until(lambda: slots.failures() == {"b": "unavailable", "c": "unavailable"})
    assert slots.admission.in_flight == 0


async def test_a_request_that_came_as_the_drain_ended_is_answered(transport, patient):
    """Its task is cancelled before its first step, and so no handler answers it."""
    slots = Slots(transport, max_in_flight=1)
    slots.admission.admit(Message("s", b"", "_INBOX.a", {"Req-Id": "a"}), slots._unused)
    await slots.admission.drain(0)
    await until(lambda: slots.failures() == {"a": "unavailable"})
    assert slots.started == []


def of(caller):
    return {ACTOR: Actor(subject=caller, roles=("reader",)).to_header()}


ANN, BOB = of("ann"), of("bob")


async def test_one_caller_leaves_slots_to_others(transport):
    """However long its requests take; alone it has four fifths of the slots."""
    slots = Slots(transport, max_in_flight=10, max_waiting=0)
    await slots.ask(*"abcdefghij", **ANN)
    assert slots.started == list("abcdefgh")
    assert slots.failures() == {"i": "overloaded", "j": "overloaded"}
    assert b"of this caller" in transport.published[0].data
    await slots.ask(*"12", **BOB)
    assert slots.started == list("abcdefgh12")
    await slots.ask("3", **BOB)
    assert b"is at its limit" in transport.published[-1].data


async def test_a_caller_who_waits_for_its_share_holds_nobody_up(transport, patient):
    """Others overtake it; at the end of one of its own requests it goes on."""
    slots = Slots(transport, max_in_flight=10)
    await slots.ask(*"abcdefghij", **ANN)
    await slots.ask("1", **BOB)
    assert slots.started == list("abcdefgh1")
    assert slots.admission.waiting == 2
    slots.end("1")
    await until(lambda: slots.admission.in_flight == 8)
    assert slots.admission.waiting == 2
    slots.end("a")
    await until(lambda: slots.started == list("abcdefgh1i"))


async def test_all_start_whose_callers_may_have_the_free_slots(transport, patient):
    """The end of one request may leave room for two that wait."""
    slots = Slots(transport, max_in_flight=10)
    await slots.ask(*"abcde", **ANN)
    await slots.ask(*"1234", **BOB)
    await slots.ask("f", **ANN)
    await slots.ask("5", **BOB)
    assert slots.admission.waiting == 2
    slots.end("1")
    await until(lambda: slots.started == list("abcde1234f5"))


async def test_one_caller_leaves_places_in_the_queue_to_others(transport, patient):
    """They would be refused where all slots are taken."""
    slots = Slots(transport, max_in_flight=1, max_waiting=10)
    await slots.ask("a", *"0123456789", **ANN)
    assert slots.failures() == {"8": "overloaded", "9": "overloaded"}
    await slots.ask("b", **BOB)
    assert slots.admission.waiting == 9


@pytest.mark.parametrize("header", ["", "{", '{"subject": 1}', of("x" * 99_000)[ACTOR]])
async def test_requests_with_headers_that_are_refused_share(transport, header):
    """A caller that cannot be read gives no share of its own."""
    slots = Slots(transport, max_in_flight=10, max_waiting=0)
    await slots.ask(*"abcd", **{ACTOR: "["})
    await slots.ask(*"efghij", **{ACTOR: header})
    assert slots.started == list("abcdefgh")


async def test_requests_of_a_service_itself_have_no_share(transport):
    """Each is for another of its callers, or for all of them."""
    slots = Slots(transport, max_in_flight=10, max_waiting=0)
    await slots.ask(*"abcdefghij", **ANN)
    await slots.ask("1", "2", "3")
    assert slots.started == list("abcdefgh12")


async def test_a_share_is_free_again_after_cancellations(transport, patient):
    """Of requests that ran, that waited, and that did not begin; nothing is kept of the caller."""
    slots = Slots(transport, max_in_flight=10)
    await slots.ask(*"abcdefghij", **ANN)
    slots.admission.admit(Message("s", b"", "_INBOX.x", {"Req-Id": "x", **BOB}), slots._unused)
    for name in "jabcdefghxi":
        await slots.admission.cancel(name)
    await until(lambda: not slots.admission.in_flight)
    assert (slots.admission.waiting, dict(slots.admission._slots)) == (0, {})


async def test_a_malformed_time_of_one_request_ends_no_acknowledgements(transport, patient):
    """The superscript two is a digit and no number; other callers still learn who has theirs."""
    slots = Slots(transport, max_in_flight=2)
    slots.admission.instance = "i1"
    await slots.ask("a", **{ACK_MS: "²"})
    await slots.ask("b", **{ACK_MS: "0"})
    await slots.admission.acknowledge()
    held = {h.message.headers["Req-Id"]: h for h in slots.admission._running.values()}
    assert {name: h.acknowledged for name, h in held.items()} == {"a": False, "b": True}


class Part:
    """A membership, and what it received."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.received: list[tuple[str, str]] = []
        self.endpoints: list[dict[str, object]] = []
        worker = Worker("words")
        self.bus = self.broker.connect()
        self.membership = Membership(worker, self.bus.transport, self._receive, self.endpoints)

    def _receive(self, message, handler) -> None:
        self.received.append((message.subject, handler))

    async def send(self, *subjects: str) -> list[tuple[str, str]]:
        """What is received of one message to each subject, and to one that is always served."""
        self.received.clear()
        for subject in (*subjects, "end"):
            await self.bus.transport.publish(subject, b"")
        await until(lambda: ("end", "end") in self.received)
        return [found for found in self.received if found != ("end", "end")]


@pytest.fixture
async def part():
    made = Part()
    await made.membership.add("end", "end", stays=True)
    yield made
    await made.bus.close()


async def test_standby_keeps_only_what_stays(part):
    """What is added meanwhile is served after the worker joined again."""
    await part.membership.add("a", "A")
    await part.membership.receive_own(lambda subject: f"at.{subject}")
    assert sorted(await part.send("a", "at.a", "at.end")) == [("a", "A"), ("at.a", "A")]
    await part.membership.leave()
    await part.membership.add("b", "B")
    await part.membership.add("c", "C", stays=True)
    assert await part.send("a", "at.a", "b", "at.b", "c") == [("c", "C")]
    await part.membership.join()
    await part.membership.join()
    found = await part.send("a", "at.a", "b", "at.b")
    assert sorted(found) == [("a", "A"), ("at.a", "A"), ("at.b", "B"), ("b", "B")]


async def test_removed_subject_is_not_served_and_not_listed(part):
    """Nor does it come back with the others."""
    await part.membership.add("a", "A")
    await part.membership.add("a", "A")
    assert [endpoint["subject"] for endpoint in part.endpoints] == ["end", "a"]
    await part.membership.remove("a")
    await part.membership.leave()
    await part.membership.join()
    assert await part.send("a") == []
    assert [endpoint["subject"] for endpoint in part.endpoints] == ["end"]


async def test_end_leaves_everything(part):
    """Also what stays."""
    await part.membership.add("a", "A")
    await part.membership.end()
    await part.membership.join()
    assert part.broker.subscriptions == set()

"""What a caller may rely on, with both transports; test_behaviour_serving.py has the workers' part."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from searchbus_bus import Request
from searchbus_bus.client.discovery import WorkerInfo
from searchbus_bus.client.transit import Transit
from searchbus_contracts import Actor, Fault, ToolCall, ToolReply
from searchbus_testing import until

from .echo import Echo, EchoReply, EchoRequest, call_echo, fault_of, start


async def test_request_gets_the_workers_reply(connect_bus):
    """A typed request is answered with the typed reply."""
    await start(await connect_bus("worker"), Echo())
    assert await call_echo(await connect_bus("caller"), fields={"text": "hé ✓"}) == EchoReply(
        "hé ✓", by="echo"
    )


async def test_no_responders_is_unavailable_at_once(connect_bus):
    """A request without a subscriber fails long before its deadline."""
    bus = await connect_bus()
    async with asyncio.timeout(60):
        fault = await fault_of(call_echo(bus, timeout_s=600))
    assert fault.code == "unavailable"
    assert fault.failure.retryable


async def test_deadline_is_a_typed_failure_and_stops_the_worker(connect_bus):
    """At the deadline the caller receives deadline_exceeded, and the handler is cancelled."""
    echo = Echo()
    await start(await connect_bus(), echo)
    bus = await connect_bus()

    async def begun() -> int:  # on a busy machine the deadline may come before the worker begins
        fault = await fault_of(call_echo(bus, fields={"wait_s": 9}, timeout_s=0.2))
        assert fault.code == "deadline_exceeded"
        return echo.started

    await until(begun)
    await until(lambda: echo.cancelled == echo.started)


async def test_expired_request_is_not_worked_on(connect_bus):
    """A message that waited past its absolute deadline starts no work."""
    echo = Echo()
    bus = await connect_bus()
    await start(bus, echo)
    answers: list[bytes] = []
    await bus.subscribe("_INBOX.late", lambda _, data: _append(answers, data))
    await bus.transport.publish(
        bus.subjects.endpoint("echo", "say"),
        b"{}",
        reply="_INBOX.late",
        headers={"Timeout-Ms": "60000", "Deadline-Ms": str(int(time.time() * 1000) - 5)},
    )
    await until(lambda: answers)
    assert b"deadline_exceeded" in answers[0]
    assert echo.started == 0


async def _append(target: list[bytes], data: bytes) -> None:
    target.append(data)


async def test_typed_failure_travels(connect_bus):
    """A Fault raised by a handler reaches the caller with code and message."""
    await start(await connect_bus(), Echo())
    fault = await fault_of(call_echo(await connect_bus(), "fail"))
    assert (fault.code, fault.failure.message) == ("not_found", "No such thing: take another.")
    assert not fault.failure.retryable


async def test_unforeseen_exception_leaks_no_text(connect_bus):
    """An exception becomes internal with fixed text."""
    await start(await connect_bus(), Echo())
    fault = await fault_of(call_echo(await connect_bus(), "break"))
    assert fault.code == "internal"
    assert "canary" not in fault.failure.message


async def test_bad_message_names_the_field_and_the_limit(connect_bus):
    """A request outside its limits is refused with the path of the field."""
    await start(await connect_bus(), Echo())
    fault = await fault_of(call_echo(await connect_bus(), message={"wait_s": 99}))
    assert fault.code == "invalid_argument"
    assert "at most 10" in fault.failure.message
    assert "wait_s" in fault.failure.message


async def test_garbage_answer_is_a_typed_failure(connect_bus):
    """A reply of the wrong shape becomes internal, not an exception."""
    await start(await connect_bus(), Echo())
    bus = await connect_bus()
    with pytest.raises(Fault, match="could not be understood"):
        await bus.request(
            bus.subjects.endpoint("echo", "say"),
            EchoRequest(),
            list[int],
            service="echo",
            timeout_s=60,
        )  # type: ignore[type-var]


async def test_cancelled_caller_cancels_the_worker(connect_bus):
    """Cancelling the awaiting task reaches the handler, whichever worker has it."""
    echoes = [Echo("a"), Echo("b")]
    servings = [await start(await connect_bus(), echo) for echo in echoes]
    bus = await connect_bus()
    task = asyncio.create_task(call_echo(bus, fields={"wait_s": 9}, timeout_s=120))
    await until(lambda: sum(e.started for e in echoes) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: sum(e.cancelled for e in echoes) == 1)
    await until(lambda: sum(s.in_flight for s in servings) == 0)
    assert (await call_echo(bus)).by in {"a", "b"}


async def test_large_request_and_reply_arrive_whole(connect_bus):
    """5 MiB in both directions, over a limit of 1 MiB a message."""
    await start(await connect_bus(), Echo())
    text = "".join(chr(0x4E00 + i % 9000) for i in range(5 * 1024 * 1024 // 3))
    reply = await call_echo(await connect_bus(), fields={"text": text}, timeout_s=120)
    assert reply.text == text


async def test_large_replies_at_once_arrive_or_are_refused_and_small_ones_pass(connect_bus):
    """What does not fit into the budget fails as overloaded, is not repeated and costs no slot."""
    echo = Echo()
    serving = await start(await connect_bus(), echo)
    bus = await connect_bus()
    bus.transit.total_bytes = 3_000_000
    large = [call_echo(bus, fields={"text": "x" * 1_200_000}, timeout_s=120) for _ in range(12)]
    small = [call_echo(bus, fields={"text": str(n)}, timeout_s=120) for n in range(12)]
    found = await asyncio.gather(*large, *small, return_exceptions=True)
    assert [reply.text for reply in found[12:]] == [str(n) for n in range(12)]
    refused = [fault for fault in found[:12] if isinstance(fault, Fault)]
    assert {fault.code for fault in refused} == {"overloaded"}
    assert {len(r.text) for r in found[:12] if r not in refused} == {1_200_000}
    await until(lambda: serving.in_flight == 0)
    assert (bus.transit.used_bytes, echo.started) == (0, 24)


async def test_no_worker_works_for_a_large_reply_that_is_refused(connect_bus):
    """Where replies are passed on and their usual size is known: a refusal comes before the work."""
    echo = Echo()
    await start(await connect_bus(), echo)
    bus = await connect_bus()
    bus.transit.caller_bytes = 3_000_000

    async def passed_on() -> bool:
        with Transit("alice"):
            try:
                await call_echo(bus, fields={"text": "x" * 1_200_000}, timeout_s=120)
            except Fault as fault:
                assert fault.code == "overloaded"
                return False
        return True

    assert await passed_on()
    found = await asyncio.gather(*(passed_on() for _ in range(40)))
    assert False in found
    assert echo.started == 1 + sum(found)


async def test_large_request_works_with_several_workers(connect_bus):
    """The worker that received a request receives its parts."""
    for name in "abc":
        await start(await connect_bus(), Echo(name))
    bus = await connect_bus()
    texts = [str(i) * 700_000 for i in range(6)]
    replies = await asyncio.gather(
        *(call_echo(bus, fields={"text": t}, timeout_s=120) for t in texts)
    )
    assert [reply.text for reply in replies] == texts


async def test_oversized_request_is_refused_before_it_is_sent(connect_bus):
    """Over 64 MiB the failure says so."""
    await start(await connect_bus(), Echo())
    fault = await fault_of(
        call_echo(await connect_bus(), fields={"text": "x" * (64 * 1024 * 1024)})
    )
    assert fault.code == "invalid_argument"
    assert "64 MiB" in fault.failure.message


async def test_progress_and_log_events_come_before_the_reply_in_order(connect_bus):
    """Events sent by the handler reach the caller's callback."""
    await start(await connect_bus(), Echo())
    events: list[Any] = []
    reply = await call_echo(await connect_bus(), "steps", on_event=events.append)
    assert reply.text == "done"
    assert [(e.kind, e.progress) for e in events] == [
        ("progress", 1), ("progress", 2), ("progress", 3), ("log", 0)
    ]  # fmt: skip
    assert events[-1].data == {"at": "end"}


async def test_actor_travels(connect_bus):
    """The worker receives on whose behalf it acts, also with names outside ASCII."""
    await start(await connect_bus(), Echo())
    reply = await call_echo(
        await connect_bus(), "who", actor=Actor(subject="Zoë ✓", roles=("a", "b"))
    )
    assert reply == EchoReply("Zoë ✓", by="a,b")


async def test_tool_call_is_decoded_and_shaped(connect_bus):
    """A tool's Struct becomes the structured part of its reply."""
    await start(await connect_bus(), Echo())
    bus = await connect_bus()
    subject = bus.subjects.tool("voice", "shout")
    reply = await bus.request(
        subject,
        {"tool": "shout", "arguments": {"word": "hey"}},
        ToolReply,
        service="echo",
        timeout_s=60,
    )
    assert reply.structured == {"text": "HEY", "by": ""}
    fault = await fault_of(
        bus.request(subject, {"tool": "shout", "arguments": {"word": "", "x": 1}}, ToolReply,
                    service="echo", timeout_s=60)
    )  # fmt: skip
    assert fault.code == "invalid_argument"
    assert "word" in fault.failure.message
    fault = await fault_of(
        bus.request(bus.subjects.tool("voice", "nope"), ToolCall(tool="nope"), ToolReply,
                    service="echo", timeout_s=60)
    )  # fmt: skip
    assert fault.code == "not_found"


async def test_gather_names_what_did_not_arrive(connect_bus):
    """A fan-out returns the replies and a failure for every other request, in the given order."""
    await start(await connect_bus(), Echo())
    bus = await connect_bus()
    say = bus.subjects.endpoint("echo", "say")
    legs = {
        "slow": Request(say, EchoRequest(wait_s=9), EchoReply, service="echo", timeout_s=0.2),
        "good": Request(say, EchoRequest(text="1"), EchoReply, service="echo"),
        "absent": Request(
            bus.subjects.endpoint("nobody", "say"), EchoRequest(), EchoReply, service="nobody"
        ),
        "garbage": Request(say, EchoRequest(), list[int], service="echo"),
        "bad": Request(
            bus.subjects.endpoint("echo", "fail"), EchoRequest(), EchoReply, service="echo"
        ),
        "also": Request(say, EchoRequest(text="2"), EchoReply, service="echo"),
    }
    gathered = await bus.gather(legs, timeout_s=60)
    assert {name: reply.text for name, reply in gathered.replies.items()} == {
        "good": "1",
        "also": "2",
    }
    assert list(gathered.replies) == ["good", "also"]
    assert {name: failure.code for name, failure in gathered.failures.items()} == {
        "slow": "deadline_exceeded",
        "absent": "unavailable",
        "garbage": "internal",
        "bad": "not_found",
    }


async def test_cancelled_gather_cancels_every_request(connect_bus):
    """No worker continues for a caller that went away."""
    echo = Echo()
    serving = await start(await connect_bus(), echo)
    bus = await connect_bus()
    leg = Request(
        bus.subjects.endpoint("echo", "say"), EchoRequest(wait_s=9), EchoReply, service="echo"
    )
    task = asyncio.create_task(bus.gather({str(i): leg for i in range(5)}, timeout_s=120))
    await until(lambda: serving.in_flight == 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: echo.cancelled == 5)
    assert bus.in_flight == 0


@pytest.mark.parametrize(
    ("subject_tail", "data", "headers"),
    [
        ("say", b"", {}),
        ("say", b"\xff\xfe{", {}),
        ("say", b'{"text": "\xff"}', {}),
        ("say", b"[" * 200_000, {}),
        ("say", b'{"text": 5}', {}),
        ("say", b"{}", {"Timeout-Ms": "soon"}),
        ("say", b"{}", {"Deadline-Ms": "-1"}),
        ("say", b"{}", {"Actor": "{"}),
        ("say", b"{}", {"Parts": "x"}),
        (
            "say",
            b"",
            {"Parts": '{"subject":"nowhere","count":1,"size_bytes":1,"sha256":"' + "0" * 64 + '"}'},
        ),
        ("say", b"{}", {"traceparent": "00-zz"}),
        ("nope", b"{}", {}),
    ],
)
async def test_malformed_message_gets_an_answer_and_harms_nobody(
    connect_bus, subject_tail, data, headers
):
    """For any bytes, the request gets a reply and the worker continues."""
    await start(await connect_bus(), Echo())
    bus = await connect_bus()
    answers: list[bytes] = []
    await bus.subscribe("_INBOX.bad", lambda _, data: _append(answers, data))
    await bus.transport.flush()
    await bus.transport.publish(
        bus.subjects.endpoint("echo", subject_tail),
        data,
        reply="_INBOX.bad",
        headers={"Req-Id": "1", **headers},
    )
    await until(lambda: answers)
    assert (await call_echo(bus, fields={"text": "still here"})).text == "still here"


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
    full, free = Echo("full", max_in_flight=1, max_waiting=0), Echo("free", max_in_flight=400)
    first = await start(await connect_bus(), full)
    bus = await connect_bus()
    blocker = asyncio.create_task(call_echo(bus, "hold"))
    await until(lambda: first.in_flight == 1)
    await start(await connect_bus(), free)
    calls = (call_echo(bus) for _ in range(400))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    # Each fails only when both of its attempts met the full worker: one in four, one in two without
    # a second one. Of 400 neither comes near the middle by chance.
    assert sum(isinstance(outcome, EchoReply) for outcome in outcomes) > 250
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


@pytest.mark.parametrize("idempotent", [True, False])
async def test_work_that_a_drain_interrupts_is_repeated_only_if_it_is_idempotent(
    connect_bus, idempotent
):
    """The worker had begun it, and nobody knows how much of it is done."""
    echoes = [Echo(), Echo()]
    servings = [await start(await connect_bus(), echo) for echo in echoes]
    bus = await connect_bus()
    task = asyncio.create_task(
        call_echo(bus, fields={"wait_s": 9}, timeout_s=120, idempotent=idempotent)
    )
    await until(lambda: sum(echo.started for echo in echoes) == 1)
    leaving = 0 if echoes[0].started else 1
    await servings[leaving].drain(timeout_s=0)
    if idempotent:
        await until(lambda: [echo.started for echo in echoes] == [1, 1])
        await servings[1 - leaving].drain(timeout_s=0)
    fault = await fault_of(task)
    assert (fault.code, fault.failure.retryable) == ("unavailable", idempotent)
    assert ("may have done the work" in str(fault)) is not idempotent
    assert sum(echo.started for echo in echoes) == 1 + idempotent


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

    async def both() -> list[WorkerInfo]:  # a busy machine may miss one in a round
        found = [worker for worker in await bus.workers() if worker.instance not in before]
        return found if {worker.instance for worker in found} == expected else []

    expected = {serving.instance for serving in servings}
    found = await until(both)
    assert {worker.catalog for worker in found} == {Echo().worker.catalog.digest}
    assert {worker.service for worker in found} == {"echo"}

"""One attempt: what comes back ends it in a reply or a FailedAttempt, and never in an exception."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time

import pytest

from searchbus_bus.client.inbox import Inbox, random_id
from searchbus_bus.client.parts import ChunkMark
from searchbus_bus.client.reply import FailedAttempt
from searchbus_bus.client.request import Deadline
from searchbus_bus.client.transit import LARGE_BYTES, Transit
from searchbus_bus.transport import Message
from searchbus_contracts import ErrorCode, Failure, Parts, decode, encode

SUBJECT = "sb.v1.echo.say"


async def attempt(inbox, body=b"{}", *, timeout_s=60.0, **options):
    return await inbox.attempt(
        SUBJECT,
        body,
        replier="echo",
        headers={"Req-Id": "r"},
        deadline=Deadline.after(timeout_s),
        **options,
    )


async def replying(transport, *replies):
    """The outcome of an attempt that gets these (data, headers)."""
    inbox = Inbox(transport)

    async def reply(message: Message) -> None:
        for data, headers in replies:
            await transport.reply(message, data, **headers)

    transport.on_publish = reply
    outcome = await attempt(inbox)
    assert inbox.in_flight == 0
    return outcome


async def test_the_reply_is_the_outcome(transport):
    """Its body, not decoded."""
    assert await replying(transport, (b'{"a":1}', {})) == b'{"a":1}'


async def test_every_attempt_has_its_own_reply_subject(transport):
    """Replies that come in another order are not confused."""
    inbox = Inbox(transport)
    tasks = [asyncio.create_task(attempt(inbox)) for _ in range(3)]
    await asyncio.sleep(0)
    while len(transport.published) < 3:
        await asyncio.sleep(0)
    assert inbox.in_flight == 3
    for number, message in reversed(list(enumerate(transport.published))):
        await transport.reply(message, b"%d" % number)
    assert await asyncio.gather(*tasks) == [b"0", b"1", b"2"]
    assert len({message.reply for message in transport.published}) == 3


@pytest.mark.parametrize(
    ("data", "headers", "code", "message"),
    [
        (b"", {"Status": "503"}, "unavailable", "No worker is running"),
        (
            encode(Failure(code="not_found", message="No.")),
            {"Nats-Service-Error-Code": "not_found"},
            "not_found",
            "No.",
        ),
        (
            encode(Failure(code="not_found", message="No.")),
            {"Nats-Service-Error-Code": "not_found", "Nats-Service-Error": "Gone."},
            "not_found",
            "No.",
        ),
        (
            b"plain text",
            {"Nats-Service-Error-Code": "500", "Nats-Service-Error": "broken"},
            "500",
            "broken",
        ),
        (b"", {"Nats-Service-Error-Code": "500"}, "500", "without a message"),
        (b"x", {"Chunk": "nonsense"}, "internal", "Chunk"),
        (b"x", {"Chunk": f"0/1 1 {'0' * 64}"}, "internal", "do not fit"),
    ],
)
async def test_failures_are_typed(transport, data, headers, code, message):
    """From a worker, from the broker, and from a reply that cannot be read."""
    outcome = await replying(transport, (data, headers))
    assert isinstance(outcome, FailedAttempt)
    assert outcome.fault.code == code
    assert outcome.cause == ("refused" if headers.get("Status") != "503" else "no_responders")
    assert message in outcome.fault.failure.message


async def test_a_reply_in_parts_is_put_together(transport):
    """In any order."""
    body = b"abcdefgh"
    digest = hashlib.sha256(body).hexdigest()
    parts = [(body[i * 4 : i * 4 + 4], {"Chunk": str(ChunkMark(i, 2, 8, digest))}) for i in (1, 0)]
    assert await replying(transport, *parts) == body


async def test_events_come_before_the_reply(transport):
    """And go to the callback."""
    events = []
    inbox = Inbox(transport)

    async def reply(message: Message) -> None:
        await transport.reply(message, b'{"kind":"progress","progress":1}', Event="progress")
        await transport.reply(message, b"done")

    transport.on_publish = reply
    assert await attempt(inbox, on_event=events.append) == b"done"
    assert [event.progress for event in events] == [1]


async def test_a_callback_that_fails_is_an_internal_error(transport):
    """The text of the exception stays in the log."""
    inbox = Inbox(transport)

    async def reply(message: Message) -> None:
        await transport.reply(message, b'{"kind":"progress"}', Event="progress")

    transport.on_publish = reply

    def fail(event: object) -> None:
        raise RuntimeError("secret-canary")

    outcome = await attempt(inbox, on_event=fail)
    assert isinstance(outcome, FailedAttempt)
    assert outcome.fault.code == "internal"
    assert "canary" not in str(outcome.fault)


async def test_the_deadline_ends_an_attempt(transport):
    """Also one that has already passed."""
    for timeout_s in (0.01, -1.0):
        inbox = Inbox(transport)
        outcome = await attempt(inbox, timeout_s=timeout_s)
        assert isinstance(outcome, FailedAttempt)
        assert (outcome.cause, outcome.fault.code) == ("timeout", "deadline_exceeded")
        assert inbox.in_flight == 0


async def test_a_reply_that_came_while_the_process_was_busy_is_taken_after_the_deadline(transport):
    """It lay in the socket in time, and is read two turns of the loop later."""
    loop = asyncio.get_running_loop()

    def busy(request: Message) -> None:
        def read() -> None:
            (inbox,) = transport.direct.values()
            inbox(Message(request.reply, b"{}", headers={}))

        def hold() -> None:
            time.sleep(0.05)
            loop.call_soon(loop.call_soon, read)

        loop.call_soon(hold)

    transport.on_publish = busy
    assert await attempt(Inbox(transport), timeout_s=0.01) == b"{}"


async def test_a_lost_connection_ends_every_attempt(transport):
    """The caller decides whether to send it again."""
    inbox = Inbox(transport)
    tasks = [asyncio.create_task(attempt(inbox)) for _ in range(2)]
    while inbox.in_flight < 2:
        await asyncio.sleep(0)
    transport.lose_connection()
    assert [outcome.cause for outcome in await asyncio.gather(*tasks)] == ["connection_lost"] * 2


async def test_without_a_connection_an_attempt_fails_at_once(transport):
    """The message was surely not sent."""
    inbox = Inbox(transport)
    transport.connected = False
    outcome = await attempt(inbox)
    assert isinstance(outcome, FailedAttempt)
    assert outcome.fault.code == ErrorCode.UNAVAILABLE


async def test_a_late_or_second_reply_is_ignored(transport):
    """Its attempt has ended."""
    inbox = Inbox(transport)
    await attempt(inbox, timeout_s=0.01)
    await transport.reply(transport.published[0], b"late")
    assert await replying(transport, (b"first", {}), (b"second", {})) == b"first"


async def test_a_large_request_is_fetched_in_parts(transport):
    """The request itself is empty; only numbers of existing parts get a reply."""
    transport.max_payload_bytes = 8 * 1024 + 4
    inbox = Inbox(transport)
    task = asyncio.create_task(attempt(inbox, b"abcdefghij"))
    while not transport.published:
        await asyncio.sleep(0)
    (request,) = transport.published
    parts = decode(request.headers["Parts"].encode(), Parts)
    assert (request.data, parts.count, parts.size_bytes) == (b"", 3, 10)
    inbox_callback = transport.direct["_INBOX.fake.>"]
    for number in (b"0", b"2", b"3", b"-1", b"x", b""):
        inbox_callback(Message(parts.subject, number, reply="_INBOX.worker"))
    inbox_callback(Message(parts.subject, b"0"))
    await asyncio.sleep(0)
    assert [m.data for m in transport.published if m.subject == "_INBOX.worker"] == [b"abcd", b"ij"]
    await transport.reply(request, b"done")
    assert await task == b"done"


CREDIT = "_INBOX.worker.$PART.t1"


class Receiving:
    """An attempt whose worker announces a large reply of this many parts."""

    def __init__(self, transport, inbox: Inbox, count: int = 12) -> None:
        self._transport = transport
        self._inbox = inbox
        self._body = bytes(range(65, 65 + count))
        self.task = asyncio.create_task(attempt(inbox, caller="alice"))

    async def announce(self, reply: str = CREDIT, size: str = "") -> None:
        while not self._transport.published:
            await asyncio.sleep(0)
        (callback,) = self._transport.direct.values()
        headers = {"Size": size or str(len(self._body))}
        callback(Message(self._transport.published[0].reply, b"", reply, headers))
        await asyncio.sleep(0)

    async def send(self, *indexes: int) -> None:
        digest = hashlib.sha256(self._body).hexdigest()
        for index in indexes:
            mark = ChunkMark(index, len(self._body), len(self._body), digest)
            part = self._body[index : index + 1]
            await self._transport.reply(self._transport.published[0], part, Chunk=str(mark))

    @property
    def credits(self) -> list[int]:
        return [int(m.data) for m in self._transport.published if m.subject == CREDIT]


async def test_a_large_reply_is_received_by_credit(transport):
    """A window of parts, half of it renewed at once; its bytes count until its end."""
    receiving = Receiving(transport, inbox := Inbox(transport))
    await receiving.announce()
    assert (receiving.credits, inbox.budget.used_bytes) == ([4], 12)
    await receiving.announce()  # again: a broker may repeat a message
    await receiving.send(0)
    assert receiving.credits == [4]
    await receiving.send(1)
    assert receiving.credits == [4, 6]
    await receiving.send(*range(2, 12))
    assert await receiving.task == b"ABCDEFGHIJKL"
    assert inbox.budget.used_bytes == 0
    assert 0 not in receiving.credits


async def test_a_large_reply_that_does_not_fit_is_refused_before_it_is_sent(transport):
    """At once, and its sender is told; a small reply is not affected."""
    inbox = Inbox(transport)
    inbox.budget.total_bytes = 20
    taken = inbox.budget.reserve("bob", 9)
    receiving = Receiving(transport, inbox)
    await receiving.announce()
    failed = await receiving.task
    await asyncio.sleep(0)
    assert (failed.fault.code, failed.fault.failure.retry_after_ms) == ("overloaded", 1000)
    assert receiving.credits == [0]
    assert await replying(transport, (b"small", {})) == b"small"
    taken.release()
    assert inbox.budget.used_bytes == 0


async def test_large_replies_of_one_caller_leave_the_share_of_others(transport):
    """The caller is that of the request, or of the HTTP request around it."""
    inbox = Inbox(transport)
    inbox.budget.caller_bytes = 20
    assert inbox.budget.reserve("alice", 9) is not None
    receiving = Receiving(transport, inbox)
    await receiving.announce()
    assert (await receiving.task).fault.code == "overloaded"
    await asyncio.sleep(0)
    transport.published.clear()
    with Transit("bob") as block:
        receiving = Receiving(transport, inbox)
        await receiving.announce()
        await receiving.send(*range(12))
        assert await receiving.task == b"ABCDEFGHIJKL"
        # Until the response has been sent.
        assert (len(block.held), inbox.budget.used_bytes) == (1, 21)
    assert inbox.budget.used_bytes == 9


async def test_an_attempt_whose_reply_would_not_fit_is_not_sent(transport):
    """Where large replies are passed on, as soon as their usual size is known."""
    inbox = Inbox(transport)
    inbox.budget.caller_bytes = 1
    inbox.budget.note("large", 2 * LARGE_BYTES)
    with Transit("alice"):
        first = asyncio.create_task(attempt(inbox, kind="large"))
        while not transport.published:
            await asyncio.sleep(0)
        assert (await attempt(inbox, kind="large")).fault.code == "overloaded"
        await transport.reply(transport.published[0], b"small")
        assert await first == b"small"
        await asyncio.sleep(0)
        other = asyncio.create_task(attempt(inbox, kind="large"))
        while len(transport.published) < 2:
            await asyncio.sleep(0)
        await transport.reply(transport.published[1], b"small")
        assert await other == b"small"
    assert len(transport.published) == 2


async def test_parts_without_announcement_are_taken_and_counted(transport):
    """Their worker sends them all at once."""
    receiving = Receiving(transport, inbox := Inbox(transport), count=3)
    while not transport.published:
        await asyncio.sleep(0)
    await receiving.send(0, 1)
    assert inbox.budget.used_bytes == 3
    await receiving.send(2)
    assert await receiving.task == b"ABC"
    assert (receiving.credits, inbox.budget.used_bytes) == ([], 0)


@pytest.mark.parametrize("reason", ["cancelled", "lost", "damaged"])
async def test_a_transfer_that_ends_early_ends_its_sender_and_gives_its_bytes_back(
    transport, reason
):
    """The caller left, the connection was lost, or the parts do not fit together."""
    receiving = Receiving(transport, inbox := Inbox(transport))
    await receiving.announce()
    if reason == "cancelled":
        receiving.task.cancel()
    elif reason == "lost":
        transport.lose_connection()
    else:
        await transport.reply(transport.published[0], b"x", Chunk="nonsense")
    await asyncio.wait([receiving.task])
    await asyncio.sleep(0)
    assert receiving.credits == [4, 0]
    assert inbox.budget.used_bytes == 0


async def test_a_large_reply_of_another_size_than_was_announced_is_refused(transport):
    """The budget counts what was announced."""
    receiving = Receiving(transport, inbox := Inbox(transport))
    await receiving.announce(size="1")
    await receiving.send(0)
    assert (await receiving.task).fault.code == "internal"
    assert inbox.budget.used_bytes == 0


@pytest.mark.parametrize("running", [True, False])
async def test_a_large_reply_that_nobody_waits_for_ends_its_sender(transport, running):
    """Of an attempt that was given up for another worker, or whose outcome is there already."""
    receiving = Receiving(transport, inbox := Inbox(transport))
    await asyncio.sleep(0)
    if running:
        transport.lose_connection()
    else:
        receiving.task.cancel()
        await asyncio.wait([receiving.task])
    await receiving.announce()
    await asyncio.wait([receiving.task])
    await asyncio.sleep(0)
    assert receiving.credits == [0]
    assert inbox.budget.used_bytes == 0


@pytest.mark.parametrize(
    ("reply", "size"),
    [
        ("", "12"), ("sb.v1.tool.fomc.delete", "12"), ("_INBOX.echo.token", "12"),
        ("_INBOX.w.$PART.>", "12"), (CREDIT, "-1"), (CREDIT, "1" * 11), (CREDIT, "²"),
    ],
)  # fmt: skip
async def test_a_malformed_announcement_fails_and_nothing_is_published(transport, reply, size):
    """A worker must not choose a subject where only this process may publish."""
    receiving = Receiving(transport, inbox := Inbox(transport))
    await receiving.announce(reply, size)
    assert (await receiving.task).fault.code == "internal"
    await asyncio.sleep(0)
    assert len(transport.published) == 1
    assert inbox.budget.used_bytes == 0


def test_ids_are_hex_and_never_equal():
    """Also across refills of the pool."""
    made = [random_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(re.fullmatch("[0-9a-f]{32}", text) for text in made)

"""The replies of many workers to one question."""

from __future__ import annotations

from searchbus_bus.client.inbox import (
    Inbox,
    InboxQuestion,
)
from searchbus_bus.transport import Message

EVERYONE = InboxQuestion("$SRV.INFO", "$SRV")


async def test_collecting_takes_every_reply_but_no_status(transport):
    """Discovery: any number of workers reply."""

    async def reply(message: Message) -> None:
        await transport.reply(message, b"1")
        await transport.reply(message, b"", Status="503")
        await transport.reply(message, b"2")

    transport.on_publish = reply
    assert await Inbox(transport).collect([EVERYONE], quiet_s=0, most_s=1) == [[b"1", b"2"]]


async def test_collecting_goes_on_while_replies_come(transport):
    """A fixed time would end before the last of a thousand workers."""
    request: list[Message] = []
    transport.on_publish = request.append
    answers = [b"1", b"2", b"3"]

    async def replies_arrived(window_s, complete):
        if answers:
            await transport.reply(request[0], answers.pop(0))

    transport.replies_arrived = replies_arrived
    found = await Inbox(transport).collect([EVERYONE], quiet_s=60, most_s=60)
    assert found == [[b"1", b"2", b"3"]]


async def test_collecting_takes_what_a_busy_process_has_not_read_yet(transport):
    """The replies are in the socket when the time is over."""
    request: list[Message] = []
    transport.on_publish = request.append
    answers = [b"1", b"2"]

    async def nothing_arrives(window_s, complete):
        pass

    async def flush(timeout_s=2.0):
        if answers:
            await transport.reply(request[0], answers.pop(0))

    transport.replies_arrived, transport.flush = nothing_arrives, flush
    found = await Inbox(transport).collect([EVERYONE], quiet_s=60, most_s=60)
    assert found == [[b"1", b"2"]]


async def test_collecting_ends_although_replies_come_without_end(transport):
    """One worker that floods a follower does not hold it."""

    async def replies_arrived(window_s, complete):
        await transport.reply(request[0], b"again")

    request: list[Message] = []
    transport.on_publish = request.append
    transport.replies_arrived = replies_arrived
    (found,) = await Inbox(transport).collect([EVERYONE], quiet_s=60, most_s=0.05)
    assert b"again" in found


async def test_replies_to_one_question_keep_the_others_open(transport):
    """Workers on a busy machine reply to one after the other."""
    requests: list[Message] = []
    transport.on_publish = requests.append
    answers = [(0, b"a1"), (0, b"a2"), (1, b"b1")]

    waits = []

    async def replies_arrived(window_s, complete):
        waits.append(window_s)
        if answers:
            place, body = answers.pop(0)
            await transport.reply(requests[place], body)

    transport.replies_arrived = replies_arrived
    questions = [
        InboxQuestion("$SRV.INFO.a", "a", enough=2),
        InboxQuestion("$SRV.INFO.b", "b", enough=1),
    ]
    found = await Inbox(transport).collect(questions, quiet_s=60, most_s=60)
    assert found == [[b"a1", b"a2"], [b"b1"]]
    assert len(waits) == 3, "nobody waits once there are enough"
    assert await Inbox(transport).collect([], quiet_s=60, most_s=60) == []

"""The in-memory broker: routing by subject, as NATS does it. See also test_behaviour."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker, memory
from searchbus_bus.transport import Message
from searchbus_contracts import Fault
from searchbus_testing import until


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a", False),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*", "a", False),
        ("*.b", "a.b", True),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
async def test_wildcards_match_as_in_nats(pattern, subject, matches):
    """`*` one token, `>` one or more at the end."""
    assert await arrives(pattern, subject) is matches


@pytest.mark.parametrize("subject", ["a", "a.b", "a.a", "a.b.c", "b.b.a.b", "a.b.c.a.b"])
async def test_a_subject_matches_itself_and_its_wildcards(subject):
    """Whatever its length."""
    tokens = subject.split(".")
    for pattern in (subject, ".".join("*" for _ in tokens), ".".join([*tokens[:-1], ">"])):
        assert await arrives(pattern, subject)


async def arrives(pattern: str, subject: str) -> bool:
    """Whether a subscription gets a message."""
    broker, found = MemoryBroker(), []

    async def callback(message: Message) -> None:
        found.append(message)

    subscription = await broker.connect().transport.subscribe(pattern, callback)
    await broker.connect().transport.publish(subject, b"x")
    await subscription.drain()
    return bool(found)


async def subscribed(broker: MemoryBroker, subject: str, queue: str = "") -> list[Message]:
    found: list[Message] = []

    async def callback(message: Message) -> None:
        found.append(message)

    await broker.connect().transport.subscribe(subject, callback, queue=queue)
    return found


async def test_one_member_of_each_queue_group_gets_a_message():
    """And every plain subscription."""
    broker = MemoryBroker()
    members = [await subscribed(broker, "s", "group") for _ in range(3)]
    other = await subscribed(broker, "s", "other")
    plain = [await subscribed(broker, "s") for _ in range(2)]
    await broker.connect().transport.publish("s", b"x")
    await until(lambda: all(plain) and other)
    assert sum(len(found) for found in members) == 1
    assert [len(found) for found in (other, *plain)] == [1, 1, 1]


async def test_a_request_without_subscribers_gets_a_status():
    """At once."""
    broker = MemoryBroker()
    found = await subscribed(broker, "inbox")
    await broker.connect().transport.publish("nobody", b"x", reply="inbox")
    await until(lambda: found)
    assert found[0].no_responders


async def test_a_message_over_the_limit_is_not_sent():
    """As with NATS; larger bodies travel in parts."""
    transport = MemoryBroker(max_payload_bytes=10).connect().transport
    with pytest.raises(Fault):
        await transport.publish("s", b"x" * 11)


async def test_a_severed_connection_sends_and_receives_nothing():
    """Until it is restored; listeners are called."""
    broker = MemoryBroker()
    bus = broker.connect()
    lost: list[bool] = []
    found: list[Message] = []

    async def callback(message: Message) -> None:
        found.append(message)

    await bus.transport.subscribe("s", callback)
    bus.transport.on_disconnect(lambda: lost.append(True))
    bus.transport.sever()
    assert not bus.connected
    assert lost == [True]
    assert not await bus.transport.wait_connected(0.01)
    with pytest.raises(Fault):
        await bus.transport.publish("s", b"x")
    await broker.connect().transport.publish("s", b"lost")
    bus.transport.restore()
    assert await bus.transport.wait_connected(0)
    await bus.transport.publish("s", b"kept")
    await until(lambda: found)
    assert [message.data for message in found] == [b"kept"]


async def test_a_full_subscription_drops_messages_and_counts_them(monkeypatch):
    """A slow consumer, in the words of NATS."""
    monkeypatch.setattr(memory, "PENDING_LIMIT", 2)
    broker = MemoryBroker()
    bus = broker.connect()

    async def callback(message: Message) -> None:
        pass

    await bus.transport.subscribe("s", callback)
    for _ in range(5):
        await bus.transport.publish("s", b"x")
    assert bus.transport.async_errors == 3


async def test_draining_delivers_what_was_received():
    """And nothing after that."""
    broker = MemoryBroker()
    bus = broker.connect()
    found: list[bytes] = []

    async def callback(message: Message) -> None:
        found.append(message.data)

    subscription = await bus.transport.subscribe("s", callback)
    await bus.transport.publish("s", b"1")
    await subscription.drain()
    await bus.transport.publish("s", b"2")
    assert found == [b"1"]

"""The limits of a body: size, time, and what all unfinished bodies hold together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from searchbus_edge.auth.identity import ANONYMOUS
from searchbus_edge.http.body import STRANGER_BYTES, BodyLimits
from searchbus_edge.http.faults import HttpRefusedError
from searchbus_edge.http.head import Head, Received


@contextmanager
def refused(status: int, message: str | None = None) -> Iterator[None]:
    """Expect that a body is refused, with this status and message."""
    with pytest.raises(HttpRefusedError, match=message) as raised:
        yield
    assert raised.value.status == status


def empty() -> int:
    """What tools declare."""
    return 0


def received(caller: str = "alice", content_length: str = "") -> Received:
    """A request of a caller."""
    return Received(Head([], content_length=content_length), ANONYMOUS, caller)


ALICE = received()


def receiver(*chunks, then=None):
    """Delivers the chunks; waits for ever after them where `then` is not given."""
    pending = list(chunks)

    async def receive():
        if pending:
            more = len(pending) > 1 or then is None
            return {"type": "http.request", "body": pending.pop(0), "more_body": more}
        await asyncio.Event().wait()

    return receive


async def test_body_in_pieces_is_joined():
    limits = BodyLimits(1000, 10)
    assert await limits.read(ALICE, receiver(b"abc", b"de", then="end"), empty) == b"abcde"


@pytest.mark.parametrize("chunks", [(b"x" * 11,), (b"x" * 6, b"x" * 6), (b"x", b"x" * 11)])
async def test_more_than_the_tools_declare_is_not_read(chunks):
    with refused(413, "The body is over 10 bytes."):
        await BodyLimits(1000, 10).read(ALICE, receiver(*chunks, then="end"), empty)


async def test_length_of_thousands_of_digits_is_ignored():
    """The server accepts zeros before a length; the body itself is looked at."""
    head = received(content_length="0" * 5000 + "5")
    assert await BodyLimits(1000, 10).read(head, receiver(b"12345", then="end"), empty) == b"12345"
    with refused(413):
        await BodyLimits(1000, 10).read(head, receiver(b"x" * 11, then="end"), empty)


async def test_body_that_does_not_end_is_refused_and_releases_its_bytes():
    """408; afterwards as much can be held as before."""
    limits = BodyLimits(8, 8, timeout_s=0.01, held_bytes=10)
    for _ in range(3):
        with refused(408):
            await limits.read(ALICE, receiver(b"12345678"), empty)


async def wait_for_more(*slow: asyncio.Task) -> None:
    """Until what comes of slow bodies has been read."""
    await asyncio.sleep(0)
    assert not any(task.done() for task in slow)


async def end(*tasks: asyncio.Task) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_all_unfinished_bodies_together_are_limited():
    """503 for the one that is too much; the others go on."""
    limits = BodyLimits(8, 8, held_bytes=32)
    slow = [
        asyncio.create_task(limits.read(received(name), receiver(b"12345678"), empty))
        for name in ("alice", "bob", "carol", "dave")
    ]
    await wait_for_more(*slow)
    with refused(503):
        await limits.read(received("erin"), receiver(b"1"), empty)
    await wait_for_more(*slow)
    await end(*slow)
    assert await limits.read(ALICE, receiver(b"12345678", b"", then="end"), empty) == b"12345678"


async def test_unfinished_bodies_of_one_caller_leave_room_for_others():
    """A quarter is the most of one; where a body may be larger, such a body."""
    limits = BodyLimits(8, 8, held_bytes=96)
    slow = [asyncio.create_task(limits.read(ALICE, receiver(b"12345678"), empty)) for _ in range(3)]
    await wait_for_more(*slow)
    with refused(503):
        await limits.read(ALICE, receiver(b"1"), empty)
    whole = receiver(b"1234", b"5678", then="end")
    assert await limits.read(received("bob"), whole, empty) == b"12345678"
    await end(*slow)
    large = receiver(b"x" * 49, b"x", then="end")
    assert await BodyLimits(50, 50, held_bytes=96).read(ALICE, large, empty) == b"x" * 50


async def test_strangers_hold_little_each_and_together():
    """As one caller, so that those who sign in find room."""
    limits = BodyLimits(4_000_000, 300_000, held_bytes=16_000_000)
    for head, parts in (
        (received(content_length=str(STRANGER_BYTES + 1)).head, (b"x",)),
        (Head([]), (b"x" * STRANGER_BYTES, b"x")),
    ):
        with refused(413, f"The body is over {STRANGER_BYTES} bytes."):
            await limits.read_of_stranger(head, receiver(*parts, then="end"))
    slow = [
        asyncio.create_task(limits.read_of_stranger(Head([]), receiver(b"x" * STRANGER_BYTES)))
        for _ in range(4_000_000 // STRANGER_BYTES)
    ]
    await wait_for_more(*slow)
    with refused(503):
        await limits.read_of_stranger(Head([]), receiver(b"x" * STRANGER_BYTES))
    body = b"x" * 200_000
    assert await limits.read(ALICE, receiver(body, b"", then="end"), empty) == body
    await end(*slow)


def body_of(**fields) -> bytes:
    return json.dumps(fields).encode()


def test_tool_may_declare_larger_requests():
    """Its own limit holds, whether it is above the usual one or not."""
    limits = BodyLimits(100_000, 200)
    body = body_of(text="x" * 1000)
    limits.check(body_of(), 0)
    with refused(413):
        limits.check(body, 0)
    limits.check(body, 5000)
    with refused(413):
        limits.check(body_of(text="x" * 5000), 5000)
    limits.check(body_of(text="x" * 100), 50)


def test_large_body_has_a_limited_number_of_keys():
    """Escaped quotes within a text do not count."""
    limits = BodyLimits(4_000_000, 200)
    many = {f"k{number}": 1 for number in range(20_001)}
    with refused(413):
        limits.check(body_of(**many), 4_000_000)
    limits.check(body_of(text='"' * 100_000), 4_000_000)


def test_keys_and_texts_are_counted_in_usual_bodies_too():
    """An escaped backslash before a quote hides nothing."""
    limits = BodyLimits(4_000_000, 4_000_000)
    for name in ("k", "k\\", 'k"', '\\\\"'):
        fits = {f"{number}{name}": f"v{name}" for number in range(9_990)}
        limits.check(body_of(**fits), 0)
        many = {f"{number}{name}": f"v{name}" for number in range(10_010)}
        with refused(413):
            limits.check(body_of(**many), 0)


def test_many_texts_that_are_no_json_are_malformed():
    """Not too large: the client is told what to mend."""
    limits = BodyLimits(4_000_000, 4_000_000)
    for body in (b'{"a":' * 40_000, b'"a" ' * 40_000):
        with refused(400):
            limits.check(body, 0)


async def test_tools_of_the_edge_are_not_read_for_a_usual_body():
    """They may be tens of thousands."""

    def largest():
        raise AssertionError

    head = received(content_length="100")
    assert await BodyLimits(1000, 100).read(head, receiver(b"x", then="end"), largest) == b"x"


async def test_length_in_other_digits_is_unknown():
    """A server that takes it as a number has read it; it is not one in the header."""
    limits = BodyLimits(1000, 10)
    head = received(content_length="²")
    assert await limits.read(head, receiver(b"abc", then="end"), empty) == b"abc"


@pytest.mark.parametrize("chunks", [(), (b"# A file, ",)])
async def test_body_that_is_cut_off_is_refused(chunks):
    """What has come of it may look whole: a document would be stored without its end."""
    events = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    events.append({"type": "http.disconnect"})

    async def receive():
        return events.pop(0)

    with refused(400):
        await BodyLimits(1000, 1000).read(ALICE, receive, empty)

"""Responses take the form that they need; a disconnect ends the work."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_edge.http import answer as answers
from searchbus_edge.http.answer import EVERY, DisconnectWatch, EventStream, HttpAnswer, PlainAnswer
from searchbus_edge.http.head import parse_head

BOTH = "application/json, text/event-stream"


@pytest.fixture
def sent():
    return []


@pytest.fixture
def answer(sent):
    """Builds an answer by the client's Accept."""

    def make(accept: str) -> HttpAnswer:
        async def send(event):
            sent.append(event)

        return HttpAnswer(parse_head([(b"accept", accept.encode())]), send)

    return make


def form(sent) -> tuple[int, bytes, bytes]:
    """Status, content type, body."""
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert [b.get("more_body", False) for b in bodies] == [True] * (len(bodies) - 1) + [False]
    return (
        start["status"],
        dict(start["headers"])[b"content-type"],
        b"".join(b["body"] for b in bodies),
    )


async def test_result_alone_is_plain_json(answer, sent):
    """With its length and status."""
    await answer(BOTH).finish(b"{}", status=400)
    assert form(sent) == (400, b"application/json", b"{}")
    assert dict(sent[0]["headers"])[b"content-length"] == b"2"


async def test_notification_makes_it_an_event_stream(answer, sent):
    """From that event on."""
    found = answer(BOTH)
    await found.notify(b'{"a":1}')
    await found.ping()
    await found.finish(b"{}", status=400)
    assert form(sent) == (
        200,
        b"text/event-stream",
        b'event: message\r\ndata: {"a":1}\r\n\r\n: ping\r\n\r\nevent: message\r\ndata: {}\r\n\r\n',
    )


async def test_client_without_json_gets_an_event_stream(answer, sent):
    """But an error of the transport is a status."""
    await answer("text/event-stream").finish(b"{}")
    assert form(sent)[:2] == (200, b"text/event-stream")
    sent.clear()
    await answer("text/event-stream").finish(b"", status=202)
    assert form(sent) == (202, b"application/json", b"")


async def test_client_without_event_streams_gets_no_notifications(answer, sent):
    """The result counts."""
    found = answer("application/json")
    await found.notify(b"{}")
    await found.ping()
    assert sent == []
    await found.finish(b"{}")
    assert form(sent) == (200, b"application/json", b"{}")


async def test_concurrent_events_start_one_stream(sent):
    """Also where sending waits."""

    async def send(event):
        await asyncio.sleep(0)
        sent.append(event)

    found = HttpAnswer(parse_head([(b"accept", BOTH.encode())]), send)
    await asyncio.gather(found.notify(b"1"), found.ping(), found.notify(b"2"))
    await found.finish(b"3")
    assert [e["type"] for e in sent].count("http.response.start") == 1
    assert sent[0]["type"] == "http.response.start"


async def test_ping_does_not_come_into_a_result(sent):
    """Of a client that takes long to read it."""
    reads = asyncio.Event()

    async def send(event):
        sent.append(event)
        await reads.wait()

    found = HttpAnswer(parse_head([(b"accept", BOTH.encode())]), send)
    finishing = asyncio.create_task(found.finish(b"1" * 100_000))
    await asyncio.sleep(0)
    pinging = asyncio.create_task(found.ping())
    await asyncio.sleep(0)
    reads.set()
    await finishing
    await pinging
    assert [e["type"] for e in sent].count("http.response.start") == 1


async def test_stream_starts_with_its_first_event(sent):
    """Each event has a name and one line of data; the last one ends the stream."""

    async def send(event):
        sent.append(event)

    stream = EventStream(send, ((b"x-own", b"1"),))
    assert not stream.started
    await stream.ping()
    await stream.event(b"{}", b"log")
    assert stream.started
    await stream.event(b"{}", b"result", more=False)
    status, content_type, body = form(sent)
    assert (status, content_type) == (200, b"text/event-stream")
    assert body == b": ping\n\nevent: log\ndata: {}\n\nevent: result\ndata: {}\n\n"
    assert (b"x-own", b"1") in sent[0]["headers"]
    assert set(EVERY) <= set(sent[0]["headers"])


async def test_stream_whose_start_was_not_sent_has_not_started():
    """A task that is cancelled meanwhile leaves the response to others."""

    async def send(event):
        raise asyncio.CancelledError

    stream = EventStream(send)
    with pytest.raises(asyncio.CancelledError):
        await stream.ping()
    assert not stream.started


async def test_large_answer_is_sent_in_its_parts(sent):
    """Nothing is joined; a small one is one piece."""

    async def send(event):
        sent.append(event)

    await PlainAnswer(b"a" * 70_000, b"b").send(send)
    assert [event["body"][:1] for event in sent[1:]] == [b"a", b"b", b""]
    assert form(sent) == (200, b"application/json", b"a" * 70_000 + b"b")
    sent.clear()
    await PlainAnswer(b"a", b"b", status=201, content_type=b"text/x").send(send)
    assert form(sent) == (201, b"text/x", b"ab")


class Client:
    """The `receive` of a client that leaves when told."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


async def test_disconnect_cancels_the_work(answer):
    """And only that."""
    client = Client()
    asyncio.get_running_loop().call_later(0.05, client.left.set)
    with DisconnectWatch(client.receive, answer(BOTH)) as watch:
        await asyncio.Event().wait()
    assert watch.gone
    assert asyncio.current_task().cancelling() == 0


async def test_work_that_ends_soon_needs_no_task(answer):
    """Most requests."""
    before = asyncio.all_tasks()
    with DisconnectWatch(Client().receive, answer(BOTH)) as watch:
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
    assert not watch.gone


async def test_cancellation_from_outside_goes_on(answer):
    """A server that stops cancels too."""

    async def serve():
        with DisconnectWatch(Client().receive, answer(BOTH)):
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_silent_work_is_pinged(answer, sent, monkeypatch):
    """And no task is left behind."""
    monkeypatch.setattr(answers, "PING_INTERVAL_S", 0.01)
    monkeypatch.setattr(answers, "WATCH_AFTER_S", 0.0)
    before = asyncio.all_tasks()
    found = answer(BOTH)
    with DisconnectWatch(Client().receive, found):
        while len(sent) < 4:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert sent[1]["body"] == b": ping\r\n\r\n"

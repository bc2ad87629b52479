"""Events of a stream, however it is cut."""

from __future__ import annotations

import itertools

import httpx2
import pytest

from searchbus_attach.transports.events import EventReader

STREAM = (
    b": hello\r\nid: 0\r\nretry: 3000\r\ndata:\r\n\r\n"
    b"event: message\nid: 7\ndata: {\ndata:  }\n\n"
    b"event: other\ndata: dropped\n\n"
    b"data:plain\r\r"
    b"id: a\0b\nid: \xc3\xa9\nretry: soon\ndata\n\n"
    b"data: never ended"
)
MESSAGES = [b"{\n }", b"plain"]


def read(reader: EventReader, *parts: bytes) -> list[bytes]:
    return [data for part in parts for data in reader.read(part)]


def test_messages_are_the_same_however_the_stream_is_cut():
    """At every two places, also inside of a line's end."""
    for first, second in itertools.combinations(range(len(STREAM)), 2):
        reader = EventReader(max_bytes=1000)
        parts = STREAM[:first], STREAM[first:second], STREAM[second:]
        assert read(reader, *parts) == MESSAGES
        assert (reader.last_id, reader.retry_s) == ("7", 3.0)


def test_what_is_said_without_data_counts():
    """The event that only says how to go on."""
    reader = EventReader(max_bytes=1000)
    assert read(reader, b"id: 4\nretry: 20\n\n") == []
    assert (reader.last_id, reader.retry_s) == ("4", 0.02)
    assert read(reader, b"id: " + b"9" * 100_000 + b"\n\n") == []
    assert reader.last_id == "4"


def test_a_stream_that_begins_anew_keeps_its_place():
    """But not the half of an event, which is asked for again."""
    reader = EventReader(max_bytes=1000)
    assert read(reader, b"id: 3\ndata: 3\n\nid: 4\ndata: half") == [b"3"]
    assert reader.last_id == "3"
    reader.begin()
    assert read(reader, b"data: whole\n\n") == [b"whole"]
    assert reader.last_id == "3"


@pytest.mark.parametrize(
    "part", [b"x" * 100, b"data: " + b"x" * 60 + b"\n", b"data: x\n" + b"data:\n" * 100]
)
def test_an_event_that_is_too_large_is_an_error(part):
    """Whether it has lines or not."""
    reader = EventReader(max_bytes=1000)
    with pytest.raises(httpx2.SSEError):
        read(reader, *[part] * 20)


@pytest.mark.parametrize("step", [1, 7, 100])
def test_an_event_at_the_limit_is_read_however_it_is_cut(step):
    """What is counted while a line is not complete counts once."""
    reader, text = EventReader(max_bytes=1000), b"data: " + b"x" * 990 + b"\n\n"
    parts = [text[start : start + step] for start in range(0, len(text), step)]
    assert read(reader, *parts) == [b"x" * 990]


def test_many_small_events_are_not_too_large():
    """The limit is of each."""
    reader = EventReader(max_bytes=100)
    assert len(read(reader, *[b"data: " + b"x" * 60 + b"\n\n"] * 20)) == 20


@pytest.mark.parametrize("step", [1, 7, 100])
def test_what_is_larger_than_what_is_kept_is_dropped(step):
    """As a whole, also of several lines, and it is not in memory; the next event is read."""
    dropped: list[int] = []
    reader = EventReader(max_bytes=10_000, kept_bytes=100, on_dropped=dropped.append)
    large = b"data: " + b"x" * 500 + b"\ndata: y\nevent: message\ndata: {}\nid: 1\n\n"
    text = large + b"data: next\n\n" + b"data: z\n" * 45 + b"\nid: 2\ndata: last\n\n"
    seen = []
    for start in range(0, len(text), step):
        seen += reader.read(text[start : start + step])
        assert len(reader._line) + len(reader._data) <= 200
    assert seen == [b"next", b"\n".join([b"z"] * 45), b"last"]
    assert [500 <= size_bytes < 550 for size_bytes in dropped] == [True]
    assert reader.last_id == "2"

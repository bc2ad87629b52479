"""During an upgrade both releases are on the bus: recorded messages of the first one, beside today's code."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from searchbus_bus import Directory, MemoryBroker
from searchbus_bus.transport import Message
from searchbus_contracts import decode_catalog, encode
from searchbus_contracts.headers import ACK, CHUNK, DEADLINE_MS, REQ_ID, SIZE, TIMEOUT_MS
from searchbus_testing import until

from .exchange import MAX_PAYLOAD_BYTES, SERVICE, VOLATILE, Recorded, converse, covers, library

FIRST = Path(__file__).parents[2] / "proto" / "exchanges" / "version_1.json"
FORMS = {
    ACK: r"[A-Za-z0-9_-]{1,64}",
    SIZE: r"\d+",
    CHUNK: r"\d+/\d+ \d+ [0-9a-f]{64}",
    REQ_ID: r"[0-9a-f]{32}",
    TIMEOUT_MS: r"\d+",
    DEADLINE_MS: r"\d+",
}
"""Of headers whose values are others each time."""


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(max_payload_bytes=MAX_PAYLOAD_BYTES)
    broker.ids = itertools.count(100)  # the recording has the inboxes m1 and m2
    return broker


def test_the_recorded_messages_are_those_of_the_first_version():
    """A change that does not fit them needs `v2` subjects beside `v1`, not another recording."""
    found = hashlib.sha256(FIRST.read_bytes()).hexdigest()
    assert found == "8baeea60d4b26b19852b2b3f78041b1f4d48a921447a8dd45a8c54b429e3c4f7"


async def test_an_edge_of_today_works_with_a_worker_of_the_first_version(broker):
    """Discovery, catalogue, ping, replies of one message and of parts, failures, events."""
    edge = broker.connect(name="edge")
    directory = Directory(edge)
    await directory.start()
    await Recorded(broker, FIRST).serve()
    found = await converse(edge, directory)
    assert found.pop("repeat") == "w" * 5000
    assert found == {
        "tools": ["count", "fail", "look_up", "repeat", "report"],
        "alive": True,
        "look_up": "whale for ann",
        "fail": ("not_found", "There is no such word. Take another."),
        "report": "whale",
        "count": "5000",
        "events": [("progress", "half"), ("log", {"at": "end"})],
    }
    await directory.close()
    await edge.close()


async def test_a_worker_of_today_works_with_an_edge_of_the_first_version(broker):
    """It answers each recorded request with everything that the worker of that time sent."""
    bus = broker.connect(name=SERVICE)
    events: list[bytes] = []

    async def on_event(_: str, data: bytes) -> None:
        events.append(data)

    recorded = Recorded(broker, FIRST)
    await broker.connect(name="events").subscribe(f"sb.v1.evt.catalog.{SERVICE}", on_event)
    serving = await bus.serve(library())
    (worker,) = await bus.workers()
    (up,) = recorded.events
    frozen = json.loads(up.data)
    await until(lambda: events)
    assert covers(json.loads(events[0]), frozen, VOLATILE)
    names = {frozen["catalog"]: worker.catalog, frozen["instance"]: worker.instance}
    for subject, exchange in recorded.exchanges.items():
        came = await recorded.ask(exchange, names)
        then = [message for from_worker, message in exchange.steps if from_worker]
        for one, other in zip(came, then, strict=True):
            assert one.headers.keys() >= other.headers.keys(), subject
            for name, value in other.headers.items():
                assert re.fullmatch(FORMS.get(name, re.escape(value)), one.headers[name]), name
        assert covers(body(came), body(then), VOLATILE), subject
    await serving.drain()
    await bus.close()


def body(messages: Iterable[Message]) -> Any:
    """What the messages say together: a catalogue unpacked, a large reply of its parts."""
    data = b"".join(one.data for one in messages if one.headers.keys() <= {CHUNK})
    found = json.loads(data) if data[:1] == b"{" else data.decode()
    if isinstance(found, dict) and "parts" in found:
        catalog, refused = decode_catalog(data)
        assert not refused
        return json.loads(encode(catalog))
    return found

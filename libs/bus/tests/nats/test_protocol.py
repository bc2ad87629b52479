"""Messages are read and written as nats-py does it."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.protocol.parser import Parser

from searchbus_bus.nats.direct import publish_command, read_messages, usual_headers
from searchbus_bus.nats.overrides import BusClient
from searchbus_bus.transport import Message

_PIECES = (
    "Req-Id",
    "A",
    ": ",
    ":",
    ":\t",
    " ",
    "\r\n",
    "\r",
    "\n",
    "\t",
    "",
    "1",
    "\x1c",
    "\x85",
    "é",
)


@given(
    st.sampled_from(["NATS/1.0\r\n", "NATS/1.0 503\r\n", "NATS/1.0", "nats/1.0\r\n"]),
    st.lists(st.sampled_from(_PIECES), max_size=12),
    st.sampled_from(["\r\n\r\n", "\r\n", ""]),
)
async def test_headers_are_read_as_nats_py_reads_them(start, pieces, end):
    """Usual ones, and every other block: what this package reads itself, it reads alike."""
    block = f"{start}{''.join(pieces)}{end}".encode()
    try:
        expected = await Client()._process_headers(block)
    except (ValueError, IndexError):
        expected = None
    assert await BusClient()._process_headers(block) == expected


class _Name(str, enum.Enum):  # noqa: UP042  (formatted differently from a StrEnum)
    """As nats-py's own names of headers."""

    STREAM = "Nats-Expected-Stream"


@pytest.mark.parametrize(
    "headers",
    [
        None,
        {"Req-Id": "1"},
        {"Actor": '{"subject":"a b"}', "Traceparent": "00-1"},
        {_Name.STREAM: "s"},
    ],
)
async def test_messages_are_written_as_nats_py_writes_them(monkeypatch, headers):
    """The same bytes for every message but one whose headers hold a line break."""
    sent = []

    async def send(self, command):
        sent.append(bytes(command))

    monkeypatch.setattr(Client, "_send_command", send)
    await Client()._send_publish("a.b", "_INBOX.1", b"body", 4, headers)
    assert sent == [publish_command("a.b", "_INBOX.1", b"body", headers)]


DIRECT = 7


def test_usual_headers_are_read_here():
    """Those of every request, with a value that has a mark of its own."""
    block = b'NATS/1.0\r\nReq-Id: 1\r\nActor: {"a": 1}\r\nEmpty: \r\n\r\n'
    assert usual_headers(block) == {"Req-Id": "1", "Actor": '{"a": 1}', "Empty": ""}
    for other in (b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nA:1\r\n\r\n"):
        assert usual_headers(other) is None


def test_whole_messages_are_read():
    """With and without headers and a reply subject; what follows is left."""
    data = (
        b"MSG a 7 2\r\nhi\r\n"
        b"MSG a 7 _INBOX.1 4\r\n\r\n\r\n\r\n"
        b"HMSG a 7 _INBOX.1 19 21\r\nNATS/1.0\r\nA: 12\r\n\r\nhi\r\n"
    )
    found, rest = read_messages(data + b"PING\r\n", {DIRECT})
    assert found == [
        (DIRECT, Message("a", b"hi")),
        (DIRECT, Message("a", b"\r\n\r\n", "_INBOX.1")),
        (DIRECT, Message("a", b"hi", "_INBOX.1", {"A": "12"})),
    ]
    assert rest == b"PING\r\n"


_SUBJECTS = st.sampled_from([b"a", b"a.b", b"MSG", b"a.\xff"])


_SIDS = st.sampled_from([DIRECT, DIRECT, DIRECT, 8])


_REPLIES = st.sampled_from([b"", b"_INBOX.1 "])


_BLOCKS = st.sampled_from(
    [b"NATS/1.0\r\nA: 1\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nA: \xff\r\n\r\n"]
)


_BODIES = st.sampled_from([b"", b"x", b"\r\n", b"PING\r\n", b"MSG a 7 1\r\n"])


@st.composite
def commands(draw: st.DrawFn) -> bytes:
    """A command of the server."""
    kind = draw(st.sampled_from(["MSG", "MSG", "HMSG", "other"]))
    if kind == "other":
        return draw(st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n"]))
    head = b"%s %d %s" % (draw(_SUBJECTS), draw(_SIDS), draw(_REPLIES))
    body = draw(_BODIES)
    if kind == "MSG":
        return b"MSG %s%d\r\n%s\r\n" % (head, len(body), body)
    block = draw(_BLOCKS)
    return b"HMSG %s%d %d\r\n%s%s\r\n" % (head, len(block), len(block) + len(body), block, body)


class Read:
    """What a client reads, in order."""

    def __init__(self, client: Client) -> None:
        self.found: list[object] = []
        self.client = client
        client._process_ping = self._note("ping")
        client._process_pong = self._note("pong")

    def _note(self, name: str):
        async def note() -> None:
            self.found.append(name)

        return note


async def as_nats_py(pieces: list[bytes]) -> list[object]:
    """What nats-py's own parser reads."""
    client = Client()
    read = Read(client)

    async def process(sid, subject, reply, data, headers):
        try:
            found = await client._process_headers(headers) if headers else {}
        except (ValueError, IndexError):
            found = {}
        subject, reply = subject.decode("utf-8", "replace"), reply.decode("utf-8", "replace")
        read.found.append((sid, Message(subject, data, reply, found or {})))

    client._process_msg = process
    parser = Parser(client)
    for piece in pieces:
        await parser.parse(piece)
    return read.found


async def as_bus_client(pieces: list[bytes]) -> list[object]:
    """What the bus's client reads, where the read loop takes what is left at once."""
    client = BusClient()
    client._status = Client.CONNECTED
    read = Read(client)
    client._direct[DIRECT] = lambda message: read.found.append((DIRECT, message))
    ours = client._process_msg

    async def process(sid, subject, reply, data, headers):
        if sid == DIRECT:
            await ours(sid, subject, reply, data, headers)
            return
        found = (await client._process_headers(headers) if headers else None) or {}
        subject, reply = subject.decode("utf-8", "replace"), reply.decode("utf-8", "replace")
        read.found.append((sid, Message(subject, data, reply, found)))

    client._process_msg = process
    for piece in pieces:
        rest = client._take(piece)
        if rest:
            await client._ps.parse(rest)
    return read.found


@given(st.lists(commands(), max_size=8), st.data())
async def test_everything_is_read_as_nats_py_reads_it(sent, data):
    """In the same order, wherever the data is cut."""
    stream = b"".join(sent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=6)))
    ends = [*cuts, len(stream)]
    pieces = [stream[a:b] for a, b in zip([0, *cuts], ends, strict=True) if a < b]
    assert await as_bus_client(pieces) == await as_nats_py(pieces)

"""What is read around nats-py's parser is read alike; what is written waits for a slow server."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.protocol.parser import Parser

from searchbus_bus.nats.overrides import BusClient
from searchbus_bus.nats.stream import read_messages, usual_headers
from searchbus_bus.transport import Message

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


@pytest.mark.parametrize("status", [Client.RECONNECTING, Client.CLOSED])
async def test_nothing_is_taken_from_a_connection_that_was_given_up(status):
    """The rest of a message that was cut off can look like another message."""
    client, found = BusClient(), []
    client._direct[DIRECT] = found.append
    client._status = Client.CONNECTED
    await client._ps.parse(client._take(b"MSG b 8 1000\r\nthe first part"))
    client._status = status
    client._ps.reset()  # as nats-py does before it reconnects
    rest = b"MSG a %d 2\r\nhi\r\n" % DIRECT
    assert (client._take(rest), found) == (rest, [])


class SlowServer:
    """A NATS server that greets, and then reads nothing until it is told to."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.received = bytearray()
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        writer.write(b'INFO {"max_payload": 1048576, "headers": true}\r\n')
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        await self.reads.wait()
        while piece := await reader.read(1 << 20):
            self.received += piece
            for _ in range(piece.count(b"PING\r\n")):
                writer.write(b"PONG\r\n")

    async def stop(self) -> None:
        for writer in self._writers:
            writer.close()
        self._server.close()


async def test_a_slow_server_gets_every_message_once_and_in_order():
    """Also those that wait while the socket takes nothing; their memory is bounded by nats-py."""
    server = SlowServer()
    client = BusClient()
    # Every wait of a publish for the flusher ends here, with an error that is reported only.
    await client.connect(await server.start(), flush_timeout=60, allow_reconnect=False)
    try:
        count, body = 400, b"x" * 100_000
        sending = asyncio.create_task(
            _publish_all(client, [b"%06d%b" % (number, body) for number in range(count)])
        )
        async with asyncio.timeout(60):
            while client._transport.ready:  # the socket is full, and nothing is written past it
                await asyncio.sleep(0)
            server.reads.set()
            await sending
            await client.flush(60)
        numbers = re.findall(rb"PUB a +100006\r\n(\d{6})x", bytes(server.received))
        assert [int(number) for number in numbers] == list(range(count))
    finally:
        await client.close()
        await server.stop()


async def test_a_publish_that_waits_for_a_slow_server_can_be_cancelled():
    """nats-py's own wait drops the cancellation, and with it the deadline of a request."""
    server = SlowServer()
    client = BusClient()
    await client.connect(await server.start(), allow_reconnect=False)
    try:
        sending = asyncio.create_task(_publish_all(client, [b"x" * 100_000] * 400))
        async with asyncio.timeout(60):
            # Its socket is full, and more waits than may wait.
            while client._transport.ready or client._pending_data_size <= client._max_pending_size:
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
        assert sending.cancelled()
    finally:
        server.reads.set()
        await client.close()
        await server.stop()


async def _publish_all(client: BusClient, bodies: list[bytes]) -> None:
    for body in bodies:
        await client.publish("a", body)
        await asyncio.sleep(0)

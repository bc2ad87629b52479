"""The overrides of nats-py are still needed, and only in the pinned minor version."""

from __future__ import annotations

import asyncio
import importlib.metadata
import re
from types import SimpleNamespace

import nats.errors
import pytest
from nats.aio.client import Client
from nats.errors import BadSubjectError, MaxPayloadError

from searchbus_bus.nats import overrides
from searchbus_bus.nats.direct import publish_command
from searchbus_bus.nats.overrides import BusClient
from searchbus_bus.nats.transport import DescribedService
from searchbus_bus.transport import ServiceRecord
from searchbus_testing import until

BAD = b"a.\xff"
BAD_STATUS = b"NATS/1.0 5\xf33\r\n\r\n"


def test_the_installed_minor_version_is_the_one_that_was_read():
    """Private methods may change in the next one: read it, then change pin, table and this."""
    assert importlib.metadata.version("nats-py").startswith("2.16.")


async def test_nats_py_still_needs_the_overrides():
    """Where this fails, an upstream change ended an override: remove it."""
    with pytest.raises(UnicodeDecodeError):
        Client()._build_message(1, BAD, b"", b"", None)
    with pytest.raises(UnicodeDecodeError):
        await Client()._process_headers(BAD_STATUS)


async def test_invalid_utf8_is_replaced():
    """The message is delivered, and no subscription matches its subject."""
    message = BusClient()._build_message(1, BAD, BAD, b"\xff", None)
    assert (message.subject, message.reply, message.data) == ("a.\ufffd", "a.\ufffd", b"\xff")
    assert await BusClient()._process_headers(BAD_STATUS) is None


async def test_valid_messages_are_read_as_before():
    """Headers, and the status of a request without subscribers."""
    client = BusClient()
    assert await client._process_headers(b"NATS/1.0\r\nReq-Id: 1\r\n\r\n") == {"Req-Id": "1"}
    assert await client._process_headers(b"NATS/1.0 503\r\n\r\n") == {"Status": "503"}


def connected_client() -> BusClient:
    """A client that keeps what it would send."""
    client = BusClient()
    client._status = Client.CONNECTED
    return client


async def test_messages_of_a_connected_client_wait_for_the_flusher():
    """With their statistics."""
    client = connected_client()
    await client.publish("a.b", b"body", "_INBOX.1", {"Req-Id": "1"})
    assert client._pending == [publish_command("a.b", "_INBOX.1", b"body", {"Req-Id": "1"})]
    assert client._pending_data_size == len(client._pending[0])
    assert (client.stats["out_msgs"], client.stats["out_bytes"]) == (1, 4)


@pytest.mark.parametrize(
    ("subject", "reply"), [("", ""), ("a b", ""), ("a\r\nPUB b 0", ""), ("a", "b\n"), ("a\t", "")]
)
async def test_a_subject_cannot_hold_another_command(subject, reply):
    """nats-py refuses it."""
    client = connected_client()
    with pytest.raises(BadSubjectError):
        await client.publish(subject, b"", reply)
    assert client._pending == []


async def test_a_message_over_the_servers_limit_is_refused():
    """Before it is sent: the server would close the connection."""
    client = connected_client()
    client._max_payload = 10
    with pytest.raises(MaxPayloadError):
        await client.publish("a", b"x" * 11)


async def test_messages_wait_while_there_is_no_connection():
    """They are sent after the connection is back, in order."""
    client = BusClient()
    client._max_pending_size = 100
    for body in (b"1", b"2"):
        await client.publish("a", body)
    assert [command.splitlines()[1] for command in client._pending] == [b"1", b"2"]


class WrittenTransport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, command: bytes) -> None:
        self.written.append(command.strip())

    def writelines(self, commands: list[bytes]) -> None:
        for command in commands:
            self.write(command)


@pytest.mark.parametrize("client_type", [Client, BusClient])
async def test_a_pong_says_that_all_before_it_was_received(client_type):
    """Otherwise a subscription ends here while the server still sends to it."""
    client = client_type()
    client._status = Client.CONNECTED
    client._transport = transport = WrittenTransport()
    client._flush_queue = asyncio.Queue()
    client._flusher_task = asyncio.current_task()  # waits for its turn
    await client._send_unsubscribe(1)
    await client._send_ping()
    if client_type is Client:  # where this fails, the override can go
        assert transport.written == [b"PING"]
    else:
        assert transport.written == [b"UNSUB 1", b"PING"]
        assert client._pending == []


async def test_a_ping_without_a_connection_writes_nothing_else():
    """What waits is sent once there is a connection again."""
    client = BusClient()
    client._transport = transport = WrittenTransport()
    client._flush_queue = asyncio.Queue()
    client._pending = [b"PUB a 0"]
    await client._send_ping()
    assert transport.written == [b"PING"]
    assert client._pending == [b"PUB a 0"]


class Pinging:
    """A client of which only the pings run; nobody answers them."""

    def __init__(self, client_type: type[Client], *, servers: int = 1) -> None:
        self.client = client_type()
        self.client._status = Client.CONNECTED
        self.client._server_pool = [None] * servers
        self.client.options = {"ping_interval": 0.01, "max_outstanding_pings": 2}
        self.client._send_ping = self._ping
        self.client._process_op_err = self._end
        self.pings: list[int] = []
        self.stale = False

    async def _ping(self) -> None:
        self.pings.append(self.client._pings_outstanding)

    async def _end(self, error: Exception) -> None:
        self.stale = isinstance(error, nats.errors.StaleConnectionError)


async def test_a_quiet_connection_is_pinged_rarely(monkeypatch):
    """Until something is sent; then a server that hangs is noticed as soon as ever."""
    monkeypatch.setattr(overrides, "QUIET_PING_INTERVAL_S", 3600.0)
    quiet = Pinging(BusClient)
    pinging = asyncio.create_task(quiet.client._ping_interval())
    await asyncio.sleep(0.1)
    assert quiet.pings == []  # where nats-py's own client sends none, the override can go
    for number in (1, 2):
        quiet.client._transport = WrittenTransport()
        quiet.client._flush_queue = asyncio.Queue()
        await quiet.client.publish("a", b"")
        await until(lambda number=number: len(quiet.pings) == number)
    await pinging
    assert quiet.stale


@pytest.mark.parametrize("client_type", [Client, BusClient])
async def test_one_of_several_servers_is_pinged_however_quiet_it_is(client_type):
    """There is another one to go to."""
    one = Pinging(client_type, servers=2)
    await one.client._ping_interval()
    assert one.stale
    assert one.pings == [1, 2]


@pytest.mark.parametrize("client_type", [Client, BusClient])
async def test_a_pong_may_come_after_its_flush_gave_up(client_type):
    """The error would end the read loop; the next PONG is that of the next PING."""
    client = client_type()
    late, next_one = asyncio.Future(), asyncio.Future()
    client._pongs = [late, next_one]
    late.cancel()
    if client_type is Client:  # where this fails, the override can go
        with pytest.raises(asyncio.InvalidStateError):
            await client._process_pong()
    else:
        await client._process_pong()
        await client._process_pong()
        assert next_one.result() is True


@pytest.mark.parametrize("client_type", [Client, BusClient])
async def test_a_lost_server_is_tried_after_all_others(client_type):
    """One that hangs still accepts connections, and each attempt takes seconds."""
    client = client_type()
    client.options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0}
    lost, *others = (SimpleNamespace(last_attempt=None, reconnects=0) for _ in range(3))
    client._server_pool = [lost, *others]
    client._current_server = lost
    tried = []

    async def connect(server) -> None:
        tried.append(server)

    client._connect_to_server = connect
    for _ in range(3):
        await client._select_next_server()
    if client_type is Client:  # where this fails, the override can go
        assert tried[0] is lost
    else:
        assert tried == [*others, lost]


async def test_a_failing_direct_callback_does_not_end_the_read_loop(caplog):
    """It is logged, and the next message is delivered."""
    client = BusClient()
    seen = []

    def callback(message):
        seen.append(message)
        raise ValueError("x")

    client.deliver_directly(SimpleNamespace(_id=7), callback)
    await client._process_msg(7, b"a.1", b"", b"{}", b"NATS/1.0 503\r\n\r\n")
    await client._process_msg(7, BAD, b"r", b"{}", b"")
    assert [(m.subject, m.reply, dict(m.headers)) for m in seen] == [
        ("a.1", "", {"Status": "503"}),
        ("a.\ufffd", "r", {}),
    ]
    assert client.stats["in_msgs"] == 2
    assert "the callback of a.1 failed" in caplog.text


async def test_a_service_describes_the_endpoints_of_the_bus():
    """Although micro did not subscribe to them."""
    endpoint = {"name": "say", "subject": "sb.v1.echo.say", "queue_group": "echo", "metadata": {}}
    record = ServiceRecord("echo", "1.0.0", "Echo.", {"catalog": "c"}, [endpoint])
    info = DescribedService(Client(), record).info()
    assert (info.name, info.metadata) == ("echo", {"catalog": "c"})
    assert [e.subject for e in info.endpoints] == ["sb.v1.echo.say"]


@pytest.mark.parametrize("status", [Client.RECONNECTING, Client.CLOSED])
async def test_nothing_is_taken_from_a_connection_that_was_given_up(status):
    """The rest of a message that was cut off can look like another message."""
    client, found = BusClient(), []
    client._direct[7] = found.append
    client._status = Client.CONNECTED
    await client._ps.parse(client._take(b"MSG b 8 1000\r\nthe first part"))
    client._status = status
    client._ps.reset()  # as nats-py does before it reconnects
    rest = b"MSG a 7 2\r\nhi\r\n"
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


@pytest.mark.parametrize("value", ["a\r\nInjected: 1", "a\n", "\ra"])
async def test_a_line_break_in_a_header_cannot_add_a_header(monkeypatch, value):
    """Such a message goes nats-py's way, which replaces the line break."""
    sent = []

    async def send(self, command):
        sent.append(bytes(command))

    assert publish_command("a", "", b"", {"Req-Id": value, "B": "2"}) is None
    monkeypatch.setattr(Client, "_send_command", send)
    await connected_client().publish("a", headers={"Req-Id": value, "B": "2"})
    assert (
        sent[0].count(b"\n") == 6
    )  # the command, the version, two headers, an empty line, the body

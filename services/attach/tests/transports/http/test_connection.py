"""What arrives, in whatever parts it arrives."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import httpx2
import pytest

from searchbus_attach.transports.http import connection as module
from searchbus_attach.transports.http.connection import MAX_SILENT_BYTES, Http1Connection, connect
from searchbus_testing import until

from .scripted import scripted

RESPONSE = (
    b"HTTP/1.1 100 Continue\r\nX: 0\r\n\r\nHTTP/1.1 200 OK\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;note=1\r\nfirst\r\n6\r\nsecond\r\n0\r\nX: 2\r\n\r\n"
)


class Socket:
    """In the place of asyncio's transport."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.aborted = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


@pytest.fixture
async def made() -> Iterator[SimpleNamespace]:
    connection = Http1Connection()
    socket = Socket()
    connection.connection_made(socket)
    return SimpleNamespace(connection=connection, socket=socket)


async def sent(connection: Http1Connection) -> asyncio.Task[None]:
    """A request that waits for its response."""
    sending = asyncio.create_task(connection.send(b"request", write_s=30, read_s=30))
    await asyncio.sleep(0)
    return sending


async def body(connection: Http1Connection) -> bytes:
    found = b""
    while data := await connection.receive(read_s=30):
        found += data
    return found


@pytest.mark.parametrize("size", [1, 2, 7, len(RESPONSE)])
async def test_a_response_in_parts_of_any_size(made, size):
    """Is the same: the final head without trailers, the chunks without their frames."""
    connection = made.connection
    sending = await sent(connection)
    assert made.socket.sent == [b"request"]
    for at in range(0, len(RESPONSE), size):
        connection.data_received(RESPONSE[at : at + size])
    await sending
    assert (connection.status, connection.headers) == (
        200, [(b"X", b"1"), (b"Transfer-Encoding", b"chunked")],
    )  # fmt: skip
    assert await body(connection) == b"firstsecond"
    assert connection.reusable
    assert not made.socket.aborted


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_SILENT_BYTES // 20),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_SILENT_BYTES,
    ],
    ids=["upgrade", "two lengths", "length and chunks", "endless 100", "large head"],
)
async def test_a_head_that_is_refused(made, data):
    """The connection is closed."""
    sending = await sent(made.connection)
    made.connection.data_received(data)
    with pytest.raises(httpx2.RemoteProtocolError):
        await sending
    assert made.socket.aborted
    assert not made.connection.reusable


@pytest.mark.parametrize("status", [100, 102, 103])
async def test_a_length_before_the_response_is_not_its_length(made, status):
    """A body of a known, small length is read as a whole, with no other limit."""
    connection = made.connection
    sending = await sent(connection)
    connection.data_received(b"HTTP/1.1 %d Early\r\nContent-Length: 0\r\n\r\n" % status)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nbody")
    await sending
    assert connection.body_bytes is None
    connection.connection_lost(None)
    assert await body(connection) == b"body"


async def test_a_body_without_end_of_frames(made):
    """A chunk's size, or trailers, that do not end are refused; a long body is not."""
    connection = made.connection
    sending = await sent(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await sending
    for _ in range(3):
        connection.data_received(b"%x\r\n%b\r\n" % (MAX_SILENT_BYTES, bytes(MAX_SILENT_BYTES)))
    assert len(await connection.receive(read_s=30)) == 3 * MAX_SILENT_BYTES
    connection.data_received(b"0\r\nX: ")
    connection.data_received(b"x" * MAX_SILENT_BYTES)
    with pytest.raises(httpx2.RemoteProtocolError):
        await connection.receive(read_s=30)


async def test_reading_stops_where_nobody_receives(made, monkeypatch):
    """And goes on afterwards."""
    monkeypatch.setattr(module, "_MAX_WAITING_BYTES", 10)
    connection = made.connection
    sending = await sent(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b"x" * 10)
    await sending
    assert made.socket.reading
    connection.data_received(b"x" * 9)
    assert not made.socket.reading
    assert len(await connection.receive(read_s=30)) == 19
    assert made.socket.reading
    connection.data_received(b"x")
    assert await body(connection) == b"x"


async def test_a_response_that_nobody_receives(made, monkeypatch):
    """Reading has stopped: no other request is sent there."""
    monkeypatch.setattr(module, "_MAX_WAITING_BYTES", 10)
    connection = made.connection
    sending = await sent(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + b"x" * 20)
    await sending
    assert not connection.reusable


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")])
async def test_an_end_before_the_response(made, error):
    """Fails the request; so does a further one, of which nothing is sent."""
    sending = await sent(made.connection)
    made.connection.connection_lost(error)
    expected = httpx2.RemoteProtocolError if error is None else httpx2.ReadError
    with pytest.raises(expected):
        await sending
    with pytest.raises(expected):
        await made.connection.send(b"more", write_s=30, read_s=30)
    assert made.socket.sent == [b"request"]


@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")])
async def test_a_body_until_the_end_of_the_connection(made, error):
    """Ends by its end, and fails by a reset."""
    connection = made.connection
    sending = await sent(connection)
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\npart")
    await sending
    assert await connection.receive(read_s=30) == b"part"
    connection.connection_lost(error)
    if error is None:
        assert await connection.receive(read_s=30) == b""
    else:
        with pytest.raises(httpx2.ReadError):
            await connection.receive(read_s=30)
    assert not connection.reusable


async def test_data_without_a_request(made):
    """Ends the connection."""
    made.connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert made.connection.ended
    assert made.socket.aborted


async def test_a_request_that_is_not_taken(made):
    """Has a time limit of its own; what is taken in time, the one of the response."""
    connection = made.connection
    connection.pause_writing()
    with pytest.raises(httpx2.WriteTimeout):
        await connection.send(b"x", write_s=0.01, read_s=30)
    connection.resume_writing()
    with pytest.raises(httpx2.ReadTimeout):
        await connection.send(b"x", write_s=30, read_s=0.01)


async def test_an_answer_at_the_same_time_as_the_time_limit(made):
    """Nothing fails later."""
    connection = made.connection
    sending = asyncio.create_task(connection.send(b"x", write_s=None, read_s=0))
    await asyncio.sleep(0)
    connection.data_received(RESPONSE)
    await asyncio.sleep(0.01)
    await until(sending.done)
    assert (await body(connection), sending.exception()) == (b"firstsecond", None)


class Opened:
    """In the place of a connection."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def hosts(monkeypatch):
    """Set what each address of a host does: `hosts({"a": None, "b": OSError("refused")})`."""

    def set_up(addresses: dict) -> list[str]:
        tried: list[str] = []

        async def attempt(address, *_):
            tried.append(address)
            found = addresses[address]
            if isinstance(found, Exception):
                raise found
            if isinstance(found, asyncio.Event):
                await found.wait()
            return Opened(address)

        async def all_of(*_):
            return list(addresses)

        monkeypatch.setattr(module, "_attempt", attempt)
        monkeypatch.setattr(module, "_addresses", all_of)
        return tried

    return set_up


async def test_the_first_address_that_accepts(hosts):
    """Later ones are not tried."""
    tried = hosts({"a": OSError("refused"), "b": None, "c": None})
    assert (await connect("x.example", 80, None)).address == "b"
    assert tried == ["a", "b"]


async def test_an_address_that_does_not_answer(hosts):
    """Does not hold up the next one, and is given up."""
    tried = hosts({"a": asyncio.Event(), "b": asyncio.Event(), "c": None})
    assert (await connect("x.example", 80, None)).address == "c"
    assert tried == ["a", "b", "c"]
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_no_address_that_accepts(hosts):
    """The reason of the first one."""
    hosts({"a": ConnectionRefusedError("first"), "b": OSError("second")})
    with pytest.raises(ConnectionRefusedError, match="first"):
        await connect("x.example", 80, None)


async def test_two_addresses_that_accept_at_once(hosts, monkeypatch):
    """One connection is used, the other closed."""
    both = asyncio.Event()
    made: list[Opened] = []
    monkeypatch.setattr(module, "_NEXT_AFTER_S", 0)
    hosts({"a": both, "b": both})
    attempt = module._attempt

    async def noted(*arguments):
        made.append(await attempt(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "_attempt", noted)
    running = asyncio.create_task(connect("x.example", 80, None))
    for _ in range(10):
        await asyncio.sleep(0)
    both.set()
    used = await running
    await until(lambda: len(asyncio.all_tasks()) == 1)
    assert [one.closed for one in made] == [one is not used for one in made]


async def test_cancellation(hosts):
    """Ends all attempts."""
    hosts({"a": asyncio.Event(), "b": asyncio.Event()})
    running = asyncio.create_task(connect("x.example", 80, None))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_the_families_of_addresses_take_turns(monkeypatch):
    """The first two are of both families, where a host has both."""
    stream, v4, v6 = socket.SOCK_STREAM, socket.AF_INET, socket.AF_INET6
    for order, expected in (
        ([v6, v6, v4, v4], ["0", "2", "1", "3"]),
        ([v4, v6], ["0", "1"]),
        ([v4, v4], ["0", "1"]),
        ([v4], ["0"]),
    ):

        async def found(*_, order=order, **__):
            return [(family, stream, 6, "", (str(n), 80)) for n, family in enumerate(order)]

        monkeypatch.setattr(
            asyncio, "get_running_loop", lambda: type("L", (), {"getaddrinfo": found})
        )
        addresses = await module._addresses("x.example", 80)
        monkeypatch.undo()
        assert addresses == expected


async def test_a_name():
    """Is resolved by the system."""
    async with scripted() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        connection = await connect("localhost", port, None)
        connection.close()
        with pytest.raises(OSError):
            await connect("does-not-exist.invalid", 80, None)

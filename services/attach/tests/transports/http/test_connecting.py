"""Hosts with several addresses."""

from __future__ import annotations

import asyncio
import socket

import pytest

from searchbus_attach.transports.http import connecting as module
from searchbus_attach.transports.http.connecting import connect
from searchbus_testing import until

from .scripted import scripted


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

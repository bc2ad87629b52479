"""The network backend that connects to public addresses only."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading

import httpcore
import pytest

from searchbus_upstream import GuardedBackend, HttpClient, HttpRequest, UpstreamUnreachableError
from searchbus_upstream.guard import AddressRefusedError, NameUnknownError, resolve


class Recorder(httpcore.AsyncNetworkBackend):
    """Records what would be opened, and opens nothing."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        self.opened.append((host, port))
        raise httpcore.ConnectError("recorded")


def guarded(*answers: list[str], routes=None):
    """A guard over a fake resolver: call n gets answer n, later calls the last one."""
    recorder, resolved = Recorder(), []

    async def resolver(host: str, port: int):
        resolved.append(host)
        return [ipaddress.ip_address(a) for a in answers[min(len(resolved), len(answers)) - 1]]

    return GuardedBackend(routes=routes, resolver=resolver, backend=recorder), recorder, resolved


async def test_checked_address_is_the_one_connected_to():
    """The name is resolved once; the next connection resolves and checks again."""
    backend, recorder, resolved = guarded(["93.184.216.34"], ["127.0.0.1"])
    with pytest.raises(httpcore.ConnectError, match="recorded"):
        await backend.connect_tcp("rebind.example.com", 80)
    assert (recorder.opened, resolved) == ([("93.184.216.34", 80)], ["rebind.example.com"])
    with pytest.raises(AddressRefusedError):
        await backend.connect_tcp("rebind.example.com", 80)
    assert len(recorder.opened) == 1


async def test_name_with_one_private_address_is_refused():
    """All of them must be public."""
    backend, recorder, _ = guarded(["93.184.216.34", "192.168.0.9"])
    with pytest.raises(AddressRefusedError):
        await backend.connect_tcp("two.example.com", 443)
    assert recorder.opened == []


@pytest.mark.parametrize("port", [0, 22, 25, 6379, 9200])
async def test_other_ports_are_refused(port):
    """Only those of web servers are allowed, and no Unix sockets."""
    backend, recorder, resolved = guarded(["93.184.216.34"])
    with pytest.raises(AddressRefusedError):
        await backend.connect_tcp("a.example.com", port)
    with pytest.raises(AddressRefusedError):
        await backend.connect_unix_socket("/var/run/docker.sock")
    assert (recorder.opened, resolved) == ([], [])


async def test_every_public_address_is_tried():
    """The failure of the last one is raised."""
    backend, recorder, _ = guarded(["93.184.216.34", "93.184.216.35"])
    with pytest.raises(httpcore.ConnectError, match="recorded"):
        await backend.connect_tcp("two.example.com", 443)
    assert recorder.opened == [("93.184.216.34", 443), ("93.184.216.35", 443)]


async def test_name_without_an_address_is_unknown():
    """Whether the resolver returns nothing or fails."""

    async def failing(host, port):
        raise OSError("no such name")

    backend, _, _ = guarded([])
    with pytest.raises(NameUnknownError):
        await backend.connect_tcp("none.example.com", 80)
    with pytest.raises(NameUnknownError):
        await GuardedBackend(resolver=failing).connect_tcp("none.example.com", 80)


async def test_allowlisted_host_goes_where_its_route_leads():
    """Without resolution, on any port; other hosts are checked as ever."""
    backend, recorder, resolved = guarded(["127.0.0.1"], routes={"*.corp.example": "10.0.0.7:8123"})
    assert backend.allows_host("wiki.corp.example.")
    assert not backend.allows_host("corp.example.evil.org")
    with pytest.raises(httpcore.ConnectError, match="recorded"):
        await backend.connect_tcp("Wiki.corp.example", 80)
    assert (recorder.opened, resolved) == ([("10.0.0.7", 8123)], [])
    with pytest.raises(AddressRefusedError):
        await backend.connect_tcp("other.example.org", 80)


async def test_client_connects_through_the_backend_only(monkeypatch):
    """No proxies of the environment; the error says that the address was refused."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    backend, recorder, resolved = guarded(["93.184.216.34"], ["10.0.0.1"])
    client = HttpClient(backend=backend)
    with pytest.raises(UpstreamUnreachableError, match="ConnectError"):
        await client.send(HttpRequest("GET", "http://a.example.com/"), timeout_s=30, max_bytes=10)
    assert (recorder.opened, resolved) == ([("93.184.216.34", 80)], ["a.example.com"])
    with pytest.raises(UpstreamUnreachableError) as caught:
        await client.send(HttpRequest("GET", "https://a.example.com/"), timeout_s=30, max_bytes=10)
    assert caught.value.kind == "address"
    assert len(recorder.opened) == 1
    await client.close()


async def test_resolver_returns_every_address_once():
    """As `getaddrinfo` gives them, without scope identifiers."""
    found = await resolve("127.0.0.1", 80)
    assert found == [ipaddress.ip_address("127.0.0.1")]


def test_names_that_are_slow_to_resolve_hold_up_nothing_else(monkeypatch):
    """Neither other threads, nor other names, also where 17 sites are silent at once: a lookup that
    nobody waits for any more keeps its thread until the resolver gives up."""
    slow = threading.Event()
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *_, **__: [] if host == "b.example.net" else slow.wait(60) and [],
    )

    async def main() -> None:
        names = [f"{n}.s{n % 16}.example" for n in range(64)]
        names += [f"{n}.example.org" for n in range(300)]
        lookups = [asyncio.create_task(resolve(name, 80)) for name in names]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(30):
                await asyncio.to_thread(lambda: None)
                await resolve("b.example.net", 80)
        finally:
            slow.set()
            await asyncio.gather(*lookups)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())

"""The bus over a nats-server in a container (testcontainers), or the wheel's where no Docker runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from searchbus_bus import Call, Worker, connect, endpoint
from searchbus_contracts import Fault
from searchbus_contracts.headers import Ping, Pong
from searchbus_testing import free_port, until

from . import engine

pytestmark = pytest.mark.slow


@dataclass
class Server:
    """A server that can be restarted on its port."""

    url: str
    restart: Any


@pytest.fixture
def server(nats_kind, own_nats_server) -> Iterator[Server]:
    if nats_kind == "wheel":
        own = own_nats_server("-js")

        def again() -> None:
            own.stop()
            own.start()

        yield Server(own.url, again)
        return
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    port = free_port()
    container = (
        DockerContainer(engine.nats_image()[0])
        .with_command("-js -sd /tmp/js")
        .with_bind_ports(4222, port)
        .with_tmpfs_mount("/tmp", "mode=1777")
        .with_kwargs(user="65532", read_only=True, cap_drop=["ALL"])
        .waiting_for(LogMessageWaitStrategy("Server is ready"))
    )
    with container:

        def again() -> None:
            container.get_wrapped_container().kill()
            container.get_wrapped_container().start()

        yield Server(f"nats://127.0.0.1:{port}", again)


def echo_worker(delay_s: float = 0.0) -> Worker:
    worker = Worker("echo")
    worker.add(Echo(delay_s))
    return worker


class Echo:
    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s

    @endpoint
    async def ping(self, call: Call, request: Ping) -> Pong:
        await asyncio.sleep(self._delay_s)
        return Pong(instance="me", in_flight=0)


async def ask(bus, timeout_s: float = 5.0) -> Pong:
    subject = bus.subjects.endpoint("echo", "ping")
    return await bus.request(subject, Ping(), Pong, service="echo", timeout_s=timeout_s)


async def test_requests_are_answered_by_workers_of_a_queue_group(server):
    """A thousand requests over two workers: each answered, both at work."""
    client = await connect(server.url, name="client")
    buses = [await connect(server.url, name=f"worker{n}") for n in range(2)]
    servings = [await bus.serve(echo_worker()) for bus in buses]
    replies = await asyncio.gather(*(ask(client) for _ in range(100)))
    assert len(replies) == 100
    assert all(serving.served > 10 for serving in servings)
    for bus in (*buses, client):
        await bus.close()


async def test_drain_under_load_loses_nothing(server):
    """One of two workers leaves in good order while requests run."""
    client = await connect(server.url, name="client")
    buses = [await connect(server.url, name=f"worker{n}") for n in range(2)]
    servings = [await bus.serve(echo_worker(0.02)) for bus in buses]
    running = [asyncio.create_task(ask(client)) for _ in range(60)]
    await asyncio.sleep(0.01)
    await servings[0].drain(5)
    running += [asyncio.create_task(ask(client)) for _ in range(60)]
    assert len(await asyncio.gather(*running)) == 120
    for bus in (*buses, client):
        await bus.close()


async def test_key_value_store_is_shared_and_expires_with_the_server(server):
    """NATS key-value store in memory: seen by another connection, gone after a restart, usable again."""
    buses = [await connect(server.url, name=f"b{n}") for n in range(2)]
    first, second = [await bus.key_value("things", ttl_s=60, max_bytes=10_000) for bus in buses]
    assert await first.create("a", b"1")
    assert (await second.get("a")).value == b"1"
    assert await second.create("a", b"2") is None
    await asyncio.to_thread(server.restart)
    give_up_s = time.monotonic() + 20
    while time.monotonic() < give_up_s:
        try:
            found = await second.get("a")
            break
        except Fault:
            await asyncio.sleep(0.2)
    assert found is None
    assert await second.create("a", b"3")
    for bus in buses:
        await bus.close()


async def test_killed_server_comes_back_and_everybody_finds_it(server):
    """Requests after a kill and a start are answered, with no new connection of ours."""
    client, worker = [await connect(server.url, name=name) for name in ("client", "worker")]
    await worker.serve(echo_worker())
    assert await ask(client)
    await asyncio.to_thread(server.restart)
    # A container may take longer to start than a request waits for its bus.
    await until(lambda: client.transport.connected and worker.transport.connected)
    assert (await ask(client, timeout_s=20.0)).instance == "me"
    for bus in (worker, client):
        await bus.close()

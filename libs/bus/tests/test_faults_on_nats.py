"""Faults that need a real server: restarts, killed workers, malformed bytes on the socket."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from msgspec import Struct

from searchbus_bus import Bus, Call, Directory, Worker, connect, endpoint
from searchbus_bus.client.requester import RECONNECT_GRACE_S
from searchbus_contracts import Fault
from searchbus_testing import until


class EchoRequest(Struct):
    wait_s: float = 0.0


class EchoReply(Struct):
    pid: int


class Echo:
    @endpoint
    async def say(self, call: Call, request: EchoRequest) -> EchoReply:
        await asyncio.sleep(request.wait_s)
        return EchoReply(pid=os.getpid())


def echo_worker() -> Worker:
    worker = Worker("echo", max_in_flight=256)
    worker.add(Echo())
    return worker


async def call_echo(
    bus: Bus, wait_s: float = 0.0, timeout_s: float = 60.0, **options: Any
) -> EchoReply:
    return await bus.request(
        bus.subjects.endpoint("echo", "say"), EchoRequest(wait_s), EchoReply, service="echo",
        timeout_s=timeout_s, **options,
    )  # fmt: skip


async def test_connect_to_a_dead_port_fails_with_advice():
    """A typed failure that says what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Fault, match="SEARCHBUS_NATS_URL"):
            await connect(f"nats://127.0.0.1:{port}", name="x", connect_timeout_s=1.0)


async def test_idempotent_requests_survive_a_restart_of_nats(own_nats_server):
    """Requests that run when the server stops are answered after its restart."""
    server = own_nats_server()
    worker_bus = await connect(server.url, name="worker")
    await worker_bus.serve(echo_worker())
    bus = await connect(server.url, name="caller", reconnect_grace_s=120)
    under_way = [asyncio.create_task(call_echo(bus, wait_s=0.5, timeout_s=120)) for _ in range(50)]
    await asyncio.sleep(0.2)
    server.stop()
    during = [asyncio.create_task(call_echo(bus, timeout_s=120)) for _ in range(50)]
    await asyncio.sleep(0.3)
    server.start()
    assert len(await asyncio.gather(*under_way, *during)) == 100
    await bus.close()
    await worker_bus.close()


async def test_request_that_may_not_be_repeated_is_not_after_a_lost_connection(own_nats_server):
    """A lost connection ends a request that is not idempotent with unavailable."""
    server = own_nats_server()
    worker_bus = await connect(server.url, name="worker")
    await worker_bus.serve(echo_worker())
    bus = await connect(server.url, name="caller")
    task = asyncio.create_task(call_echo(bus, wait_s=5, idempotent=False))
    await asyncio.sleep(0.2)
    server.stop()
    with pytest.raises(Fault, match="connection to the message bus was lost"):
        await task
    await bus.close()
    await worker_bus.close()


async def test_request_while_disconnected_ends_by_its_deadline(own_nats_server):
    """While the server is unreachable the caller receives unavailable, in time."""
    server = own_nats_server()
    bus = await connect(server.url, name="caller")
    server.stop()
    await asyncio.sleep(0.2)
    with pytest.raises(Fault) as caught:
        await call_echo(bus, timeout_s=0.4)
    assert caught.value.code == "unavailable"
    await bus.close()


async def test_requests_wait_until_each_server_was_tried(own_nats_server):
    """One that hangs costs two seconds: the next one may be the one that lets them in."""
    hanging, good = [own_nats_server(), own_nats_server()], own_nats_server()
    worker_bus = await connect(good.url, name="worker")
    await worker_bus.serve(echo_worker())
    urls = ",".join(server.url for server in (*hanging, good))
    bus = await connect(urls, name="caller", dont_randomize=True)
    for server in hanging:
        os.kill(server.process.pid, signal.SIGSTOP)
    try:
        async with asyncio.TaskGroup() as calls:
            for _ in range(40):  # also while there is no server
                calls.create_task(call_echo(bus))
                await asyncio.sleep(0.1)
    finally:
        for server in hanging:
            os.kill(server.process.pid, signal.SIGCONT)
    good.stop()
    await until(lambda: bus.transport.connected)
    for server in hanging:
        server.stop()
    await until(lambda: bus.transport.tried_all)
    await asyncio.sleep(RECONNECT_GRACE_S)
    with pytest.raises(Fault, match="not reachable"):
        await call_echo(bus, timeout_s=3600)
    await bus.close()
    await worker_bus.close()


async def test_drain_without_a_server_ends_soon(own_nats_server):
    """A worker whose server stopped leaves without waiting for it at every step."""
    server = own_nats_server()
    bus = await connect(server.url, name="worker")
    serving = await bus.serve(echo_worker())
    server.stop()
    await asyncio.sleep(0.3)
    async with asyncio.timeout(60):  # nine subscriptions took ten seconds each
        await serving.drain()
        await bus.close()


async def test_worker_that_leaves_without_a_server_is_not_back_with_it(
    own_nats_server, lasting_connections
):
    """On standby it gets no requests, joins again once, and after a drain nobody finds it."""
    server = own_nats_server()
    worker_bus = await connect(server.url, name="worker")
    serving = await worker_bus.serve(echo_worker())
    bus = await connect(server.url, name="caller", reconnect_grace_s=60)

    async def restarted(leave: Callable[[], Awaitable[None]]) -> None:
        server.stop()
        await until(lambda: not worker_bus.transport.connected)
        await leave()
        server.start()
        for each in (bus, worker_bus):
            assert await each.transport.wait_connected(60)

    await restarted(serving.step_out)
    with pytest.raises(Fault) as caught:
        await call_echo(bus)
    assert caught.value.code == "unavailable"
    await serving.step_in()
    at_instance = bus.subjects.at(serving.instance, bus.subjects.endpoint("echo", "say"))
    for subject in (bus.subjects.endpoint("echo", "say"), at_instance):
        before = serving.served
        await bus.request(subject, EchoRequest(), EchoReply, service="echo", timeout_s=60)
        await bus.transport.flush()
        await until(lambda: not serving.in_flight)
        assert serving.served == before + 1

    async def is_one() -> bool:  # a busy machine may miss it in a round
        return len(await bus.workers()) == 1

    await until(is_one)
    await restarted(serving.drain)
    assert await bus.workers() == []
    await bus.close()
    await worker_bus.close()


async def test_connection_survives_a_server_that_pauses(own_nats_server, caplog):
    """A flush gives up; its late answer does not end what the connection receives."""
    server = own_nats_server()
    worker_bus = await connect(server.url, name="worker")
    await worker_bus.serve(echo_worker())
    bus = await connect(server.url, name="caller", reconnect_grace_s=60)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        await bus.transport.flush(1)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert (await call_echo(bus)).pid == os.getpid()
    assert "encountered error" not in caplog.text  # nats-py, of its read loop
    await bus.close()
    await worker_bus.close()


WORKER_PROGRAM = textwrap.dedent("""
    import asyncio, os, sys
    from msgspec import Struct
    from searchbus_bus import Call, Worker, connect, endpoint
    class EchoRequest(Struct):
        wait_s: float = 0.0
    class EchoReply(Struct):
        pid: int
    class Echo:
        @endpoint
        async def say(self, call: Call, request: EchoRequest) -> EchoReply:
            await asyncio.sleep(request.wait_s)
            return EchoReply(pid=os.getpid())
    async def main():
        bus = await connect(sys.argv[1], name="worker")
        worker = Worker("echo", max_in_flight=256)
        worker.add(Echo())
        await bus.serve(worker)
        print("ready", flush=True)
        await asyncio.sleep(60)
    asyncio.run(main())
""")


@pytest.fixture
def two_workers(own_nats_server):
    """A server and two processes on it."""
    server = own_nats_server()
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER_PROGRAM, server.url], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for worker in workers:
            assert worker.stdout.readline() == b"ready\n"
        yield server, workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


async def test_killed_worker_costs_only_what_it_held(two_workers):
    """After kill -9 of one of two workers new requests go to the other without a failure."""
    server, workers = two_workers
    bus = await connect(server.url, name="caller")
    assert {reply.pid for reply in await asyncio.gather(*(call_echo(bus) for _ in range(40)))} == {
        worker.pid for worker in workers
    }
    workers[0].kill()
    workers[0].wait()
    await asyncio.sleep(0.1)
    after = await asyncio.gather(*(call_echo(bus) for _ in range(40)))
    assert {reply.pid for reply in after} == {workers[1].pid}
    await bus.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_what_a_lost_worker_held_is_answered_by_the_other(two_workers, number):
    """Long before the deadline of an hour; also what it held for an instant only."""
    server, workers = two_workers
    bus = await connect(server.url, name="caller")
    directory = Directory(bus)
    await directory.start()
    held = [asyncio.create_task(call_echo(bus, wait_s=6, timeout_s=3600)) for _ in range(40)]
    await asyncio.sleep(1)
    workers[0].send_signal(number)
    held += [asyncio.create_task(call_echo(bus, timeout_s=3600)) for _ in range(40)]
    async with asyncio.timeout(300):
        replies = await asyncio.gather(*held)
    assert {reply.pid for reply in replies} == {workers[1].pid}
    await directory.close()
    await bus.close()


def _hostile(rng: random.Random, subject: bytes, number: int) -> bytes:
    body = rng.choice(
        [b"", b"{", b"\xff\xfe", b"[" * rng.randint(1, 4000), b"null", b"{}" * 9,
         bytes(rng.randrange(256) for _ in range(rng.randint(0, 200)))]
    )  # fmt: skip
    inbox = rng.choice([b"in", b"_INBOX.in", b"_INBOX.in"])
    reply = rng.choice([b"", b"%s.%d" % (inbox, number), b"%s.\xff%d" % (inbox, number)])
    target = rng.choice(
        [subject, subject + b".\xc3\x28", b"t.v1.tool.voice.\xff", b"t.v1.ctl.cancel.echo"]
    )
    if rng.random() < 0.5:
        return b"PUB %s %s %d\r\n%s\r\n" % (target, reply, len(body), body)
    lines = rng.choice(
        [b"Req-Id: \xff\xff", b"Timeout-Ms: -1", b"Timeout-Ms: 9" * 9, b"Parts: {", b"novalue",
         b"Actor: [[[[", b": empty", b"Chunk: 1/1", b"Event: progress"]
    )  # fmt: skip
    header = b"NATS/1.0%s\r\n%s\r\n\r\n" % (rng.choice([b"", b" 5\xff3", b" 503"]), lines)
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
        target, reply, len(header), len(header) + len(body), header, body,
    )  # fmt: skip


async def test_ten_thousand_malformed_messages_kill_and_silence_nothing(
    own_nats_server, lasting_connections
):
    """Malformed bytes on the socket: every worker answers afterwards, memory does not grow."""
    server = own_nats_server()
    worker_bus = await connect(server.url, name="worker", prefix="t")
    worker = echo_worker()
    serving = await worker_bus.serve(worker)
    bus = await connect(server.url, name="caller", prefix="t")
    await call_echo(bus)
    disconnects: list[int] = []
    worker_bus.transport.on_disconnect(lambda: disconnects.append(1))
    process = psutil.Process()
    before = process.memory_info().rss
    rng = random.Random(7)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    for number in range(10_000):
        writer.write(_hostile(rng, b"t.v1.echo.say", number))
        if number % 200 == 0:
            await writer.drain()
            assert (await call_echo(bus)).pid == os.getpid()
    await writer.drain()
    writer.close()
    assert (await call_echo(bus)).pid == os.getpid()
    assert await serving.healthy(timeout_s=60)
    assert not disconnects
    assert serving.served > 1000
    async with asyncio.timeout(100):
        while serving.in_flight:
            await asyncio.sleep(0.05)
    assert process.memory_info().rss - before < 32 * 1024 * 1024
    await bus.close()
    await worker_bus.close()
    del reader

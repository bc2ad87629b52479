"""The life of a process, as a supervisor sees it: logs, health, drain, exit codes."""

from __future__ import annotations

import asyncio
import json
import platform
import re
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from msgspec import Struct

from searchbus_bus import MemoryBroker, connect
from searchbus_runtime import Process, ServiceSettings, process
from searchbus_runtime.health import respond
from searchbus_testing import NatsServer, free_port, until

PROGRAM = """
import asyncio, gc, logging, sys, threading
from msgspec import Struct
from searchbus_bus import Call, Worker, endpoint
from searchbus_contracts import ErrorCode, Fault
from searchbus_runtime import ServiceSettings, load_settings, run
from searchbus_runtime.several import run_several

class Ask(Struct):
    wait_s: float = 0.0
class SayReply(Struct):
    text: str

class Echo:
    @endpoint
    async def say(self, call: Call, request: Ask) -> SayReply:
        logging.getLogger("t").info("working")
        await asyncio.sleep(request.wait_s)
        return SayReply("done" if gc.isenabled() else "nothing is collected")

async def store_closed():
    logging.getLogger("t").info("the store is closed")

async def start(process):
    process.resources.push_async_callback(store_closed)
    if "--lasting" in sys.argv:
        raise Fault(ErrorCode.UNAVAILABLE, "no model", retryable=False)
    if "--passing" in sys.argv:
        raise Fault(ErrorCode.UNAVAILABLE, "no database")
    if "--hanging" in sys.argv:
        logging.getLogger("t").info("downloading")
        await asyncio.to_thread(threading.Event().wait)
    worker = Worker("echo")
    worker.add(Echo())
    await process.serve(worker)

gc.disable()
settings = load_settings(ServiceSettings)
if "--several" in sys.argv:
    sys.exit(run_several("echo", settings, start, 2))
sys.exit(run("echo", settings, start))
"""


class Ask(Struct):
    wait_s: float = 0.0


class SayReply(Struct):
    text: str = ""


def start(server, tmp_path, *arguments: str, **settings) -> subprocess.Popen[str]:
    environment = {
        "SEARCHBUS_NATS_URL": server.url,
        "SEARCHBUS_SUBJECT_PREFIX": "proc",
        "SEARCHBUS_HEALTH_PORT": "0",
        "SEARCHBUS_LOG_FORMAT": "json",
        "SEARCHBUS_DATA_DIR": str(tmp_path),
        **{f"SEARCHBUS_{key.upper()}": str(value) for key, value in settings.items()},
    }
    import os

    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], env={**os.environ, **environment},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def logged(process, pattern: str) -> tuple[re.Match[str], list[str]]:
    """Wait for a line of the log; its match, and the lines up to it."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := re.search(pattern, line):
            return match, lines
    raise AssertionError("".join(lines))


def health_url(process) -> str:
    return logged(process, r"health at (http://[\d.:]+)/readyz")[0][1]


async def test_sigterm_finishes_running_requests_and_exits_clean(nats_server, tmp_path):
    """Healthy and ready while it runs; a request under way when SIGTERM comes is answered."""
    process = start(nats_server, tmp_path)
    url = health_url(process)
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{url}/healthz")).json() == {
            "status": "ok",
            "checks": {"echo": True},
        }
        assert (await http.get(f"{url}/readyz")).status_code == 200
        assert "python_info" in (await http.get(f"{url}/metrics")).text
        assert (await http.get(f"{url}/other")).status_code == 404
    bus = await connect(nats_server.url, name="t", prefix="proc")
    task = asyncio.create_task(
        bus.request(
            bus.subjects.endpoint("echo", "say"), Ask(1.0), SayReply, service="echo", timeout_s=60
        )
    )
    _, begun = await asyncio.to_thread(logged, process, "working")
    process.send_signal(signal.SIGTERM)
    assert (await task).text == "done"
    assert await asyncio.to_thread(process.wait, 20) == 0
    lines = [json.loads(line) for line in (*begun, *process.stderr)]
    assert [line["event"] for line in lines][-2:] == ["echo is stopping", "the store is closed"]
    working = next(line for line in lines if line["event"] == "working")
    assert len(working["trace_id"]) == 32
    assert working["service"] == "echo"
    await bus.close()


async def test_sigterm_while_nats_is_away_closes_the_store(own_nats_server, tmp_path):
    """And ends clean, without a traceback."""
    server = own_nats_server()
    process = start(server, tmp_path)
    health_url(process)
    server.stop()
    logged(process, "lost the connection")
    process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait, 300) == 0
    rest = process.stderr.read()
    assert "the store is closed" in rest
    assert "Traceback" not in rest
    assert "could not be stopped" not in rest


async def test_a_process_stays_ready_while_nats_restarts(own_nats_server, monkeypatch):
    """For some seconds, and says that it is away. A process that drains is not ready at once."""
    monkeypatch.setattr(process, "_BUS_GRACE_S", 3600.0)
    server = own_nats_server()
    here = Process("t", ServiceSettings(), await connect(server.url, name="t"))

    async def readyz() -> tuple[int, dict[str, Any]]:
        status, _, body = await respond(here.health, "/readyz")
        return status, json.loads(body)

    fine = (200, {"status": "ok", "checks": {"accepting": True, "bus": True}})
    assert await readyz() == fine
    server.stop()
    await until(lambda: here.bus.away_s > 0.1)
    status, body = await readyz()
    assert (status, list(body["details"])) == (200, ["bus_away_s"])
    here.health.draining = True
    assert (await readyz())[0] == 503
    here.health.draining = False
    monkeypatch.setattr(process, "_BUS_GRACE_S", 0.1)
    status, body = await readyz()
    assert (status, body["checks"]) == (503, {"accepting": True, "bus": False})
    server.start()
    await until(lambda: here.bus.away_s == 0)
    assert await readyz() == fine
    await here.drain()


async def test_a_step_that_fails_does_not_keep_the_store_open(caplog):
    """It is logged."""
    process = Process("t", ServiceSettings(), MemoryBroker().connect())
    closed = []

    async def broken():
        raise RuntimeError("broken")

    async def close():
        closed.append(True)

    process.before_drain(broken)
    process.resources.push_async_callback(broken)
    process.resources.push_async_callback(close)
    await process.drain()
    assert closed == [True]
    assert caplog.text.count("could not be stopped") == 2


async def test_open_requests_are_told_of_the_end_before_they_are_cut():
    """Where there are some; the application has a moment to answer them."""
    ended = []
    for clients, limit_s in ((0, 600.0), (1, 0.0)):
        process = Process("t", ServiceSettings(drain_timeout_s=limit_s), MemoryBroker().connect())
        asked, told = asyncio.Event(), asyncio.Event()

        async def app(scope, receive, send, asked=asked, told=told):
            asked.set()
            await told.wait()
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b"told"})

        def tell(told=told, clients=clients):
            ended.append(clients)
            told.set()

        process.at_limit(tell)
        port = await process.run_server(app, lifespan="off", timeout_graceful_shutdown=600)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=600) as http:
            asking = [asyncio.create_task(http.get("/")) for _ in range(clients)]
            if asking:
                await asked.wait()
            await process.drain()
            assert [answer.text for answer in await asyncio.gather(*asking)] == ["told"] * clients
    assert ended == [1]


async def test_what_needs_the_bus_at_the_end_has_it():
    """After the workers, and before the bus is closed."""
    process = Process("t", ServiceSettings(), MemoryBroker().connect())
    connected = []

    async def look():
        connected.append(process.bus.connected)

    process.resources.push_async_callback(look)
    await process.drain()
    assert connected == [True]


@pytest.fixture
def nowhere():
    """A server that is not there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield SimpleNamespace(url=f"nats://127.0.0.1:{taken.getsockname()[1]}")


def test_missing_nats_ends_with_advice(nowhere, tmp_path):
    """After the time it was given, with exit code 1 and a sentence."""
    process = start(nowhere, tmp_path, connect_timeout_s=1)
    assert process.wait(300) == 1
    assert "SEARCHBUS_NATS_URL" in process.stderr.read()


def test_a_server_that_starts_later_is_waited_for(tmp_path):
    """The log says so once."""
    server = NatsServer(tmp_path, free_port())
    process = start(server, tmp_path, connect_timeout_s=600)
    assert any("waiting for NATS" in line for line in process.stderr)
    server.start()
    before = []
    assert any("echo is up" in (before.append(line) or line) for line in process.stderr)
    assert "waiting for NATS" not in "".join(before)
    process.terminate()
    assert process.wait(300) == 0
    server.stop()


def test_sigterm_ends_the_wait_for_nats(nowhere, tmp_path):
    """As a normal stop."""
    process = start(nowhere, tmp_path, connect_timeout_s=600)
    assert any("waiting for NATS" in line for line in process.stderr)
    process.terminate()
    assert process.wait(300) == 0
    assert "echo is stopping" in process.stderr.read()


@pytest.mark.parametrize("several", [[], ["--several"]])
def test_sigterm_ends_a_start(nats_server, tmp_path, several):
    """As a normal stop: the store is closed. Nothing waits for a thread that goes on."""
    process = start(nats_server, tmp_path, "--hanging", *several)
    for _ in range(2 if several else 1):
        assert any("downloading" in line for line in process.stderr)
    process.terminate()
    assert process.wait(300) == 0
    rest = process.stderr.read()
    assert rest.count("echo is stopping") == rest.count("the store is closed") == 1 + len(several)
    assert "Traceback" not in rest


@pytest.mark.parametrize(("option", "code"), [("--lasting", 2), ("--passing", 1)])
def test_exit_code_says_whether_another_start_helps(nats_server, tmp_path, option, code):
    """With 2, a stack gives up at once; with 1 it tries again. The store is closed in both cases."""
    process = start(nats_server, tmp_path, option)
    assert process.wait(300) == code
    printed = process.stderr.read()
    assert "cannot run: unavailable: no " in printed
    assert "the store is closed" in printed


SHOWN_HEAP = """
import resource
from searchbus_runtime.process import keep_freed_memory

keep, rounds, size_bytes = {keep}, 20, 10 * 2**20
assert not keep or keep_freed_memory(64 * 2**20)
for number in range(rounds + 3):
    if number == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"x" * size_bytes for _ in range(3)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, keep: bool) -> int:
    """Page faults of twenty rounds, in a process of its own."""
    program = SHOWN_HEAP.format(keep=keep)
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    return int(found.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the option")
def test_large_values_are_made_in_memory_that_is_kept():
    """Without it each round asks the system for most of 30 MiB again."""
    without = faults(keep=False)
    if not without:
        pytest.skip("this system does not count page faults")
    assert faults(keep=True) * 4 < without


def test_another_c_library_is_left_as_it_is(monkeypatch):
    """Such as that of macOS."""
    monkeypatch.setattr(process.ctypes, "CDLL", lambda name: object())
    assert not process.keep_freed_memory(2**20)


async def test_readiness_names_what_the_server_refuses(monkeypatch):
    """A key or a certificate, while it is refused; nothing else."""
    bus = MemoryBroker().connect(name="web")
    process = Process("web", ServiceSettings(), bus)
    assert process.health.details() == {}
    monkeypatch.setattr(type(bus.transport), "fault", "NATS at x refuses the key of web")
    assert process.health.details() == {"refused": "NATS at x refuses the key of web"}

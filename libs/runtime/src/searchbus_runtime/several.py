"""A service in several processes on one port, one for each core (setting PROCESSES).

    parent       health port: answers for all of them
    ├── process 0    the service's port (SO_REUSEPORT: the kernel spreads connections)
    └── process 1    the same

The processes are forked before anything runs, so they share the memory of what was imported. When
one ends, the others drain and all of them end: what runs the container starts it again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .health import Answer, app_of
from .logs import configure_logging
from .parent import end_with_parent
from .process import Process, run
from .server import HttpServer, bind
from .settings import ServiceSettings

log = logging.getLogger("searchbus.process")
_TIMEOUT_S = 3.0
"""The time of one process to answer; probes wait five seconds."""
_SAMPLE = re.compile(r"[a-zA-Z_:][\w:]*")


def run_several(
    service: str,
    settings: Any,
    start: Callable[[Process[Any]], Awaitable[None]],
    count: int,
) -> int:
    """Run a service in `count` processes until SIGTERM or SIGINT; returns the largest exit code."""
    listeners = [bind("127.0.0.1", 0) for _ in range(count)]
    pids = [_fork(service, settings, start, listener, listeners) for listener in listeners]
    addresses = [f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in listeners]
    configure_logging(service, level=settings.log_level, style=settings.log_format)
    return asyncio.run(_watch(service, settings, pids, addresses))


def _fork(
    service: str,
    settings: Any,
    start: Callable[[Process[Any]], Awaitable[None]],
    listener: socket.socket,
    listeners: Sequence[socket.socket],
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        end_with_parent()
        for other in listeners:
            if other is not listener:
                other.close()
        own = settings.model_copy(update={"processes": 1, "reuse_port": True})
        code = run(service, own, start, health=listener)
    finally:
        os._exit(code)  # what the parent would do at its end is not done twice


async def _watch(
    service: str, settings: ServiceSettings, pids: Sequence[int], addresses: Sequence[str]
) -> int:
    """Answer for the processes, pass on signals, and wait for their end."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        for pid in running:
            os.kill(pid, signal.SIGTERM)

    running = set(pids)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    server = None
    if settings.health_port is not None:

        async def answer(path: str, accept: str) -> Answer:
            return await answer_of_all(addresses, path, accept)

        server = await HttpServer.start(
            app_of(answer), host=settings.health_host, port=settings.health_port
        )
    worst = 0
    while running:
        pid, status = await asyncio.to_thread(os.waitpid, -1, 0)
        if pid not in running:
            continue
        running.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        worst = max(worst, 1 if code < 0 else code)
        if code:
            log.error("process %d of %s ended with %d; the others end, too", pid, service, code)
        end()
    if server is not None:
        await server.stop()
    return worst


async def answer_of_all(addresses: Sequence[str], path: str, accept: str) -> Answer:
    """The answers of several processes as one: the worst status, every metric with its process."""
    found = await asyncio.gather(
        *(asyncio.to_thread(_get, f"{address}{path}", accept) for address in addresses)
    )
    status = max(one[0] for one in found)
    if path == "/metrics" and status == 200:
        return status, found[0][1], merged([body.decode() for _, _, body in found]).encode()
    if path not in ("/healthz", "/readyz"):
        return next(one for one in found if one[0] == status)
    body = {
        "status": "ok" if status == 200 else "failing",
        "processes": [json.loads(one[2]) for one in found],
    }
    return status, "application/json", json.dumps(body).encode()


def _get(url: str, accept: str) -> Answer:
    request = urllib.request.Request(url, headers={"Accept": accept or "*/*"})  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()
    except OSError as error:
        log.warning("a process does not answer for its health: %s", error)
        return 503, "application/json", b'{"status": "failing", "checks": {"answers": false}}'


def merged(texts: Sequence[str]) -> str:
    """Metrics of several processes as one text, families together, with the label `process`."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for number, text in enumerate(texts):
        name = ""
        for line in text.splitlines():
            if line.startswith("# ") and line != "# EOF":
                name = line.split(" ", 3)[2]
                heads = families.setdefault(name, ([], []))[0]
                if line not in heads:
                    heads.append(line)
            elif line and not line.startswith("#"):
                families.setdefault(name, ([], []))[1].append(_labelled(line, number))
    lines = [line for heads, samples in families.values() for line in (*heads, *samples)]
    if texts and texts[0].rstrip().endswith("# EOF"):
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _labelled(sample: str, number: int) -> str:
    name = _SAMPLE.match(sample)
    assert name is not None
    rest, label = sample[name.end() :], f'process="{number}"'
    if not rest.startswith("{"):
        return f"{name[0]}{{{label}}}{rest}"
    return f"{name[0]}{{{label}{'' if rest[1] == '}' else ','}{rest[1:]}"

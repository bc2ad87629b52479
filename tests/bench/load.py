"""The load: a process of its own that sends requests as fast as they are answered.

    before_s = cpu_s(pids)
    found = await send({"port": 8080, "path": "/mcp", "headers": {...}, "body": {...},
                        "expected": "hello", "in_flight": 16, "count": 100})
    print(found["p50_s"], (cpu_s(pids) - before_s) / found["requests"])

A specification has these fields:

port, path, headers, body   one request, which is sent again and again
expected    text that every response has to contain
in_flight   connections, each with one request at a time
count       requests on each connection
sessions    optional: the Mcp-Session-Id of each connection
numbered    optional: zeros in the body, which each request replaces by a number of its own
every_s     optional: time between two requests of a connection; by default the next one is sent as
            soon as the last one is answered
nats_url    send plain NATS requests to RAW_SUBJECT in place of HTTP; needs only in_flight and count
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvloop

RAW_SUBJECT = "raw.echo"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


async def send(spec: dict[str, Any]) -> dict[str, float]:
    """Send the load from a process of its own.

    Returns:
        `requests`, `requests/s`, and the percentiles `p50_s` and `p99_s` of the response times.

    Raises:
        RuntimeError: a response was not the expected one; standard error has it.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, json.dumps(spec), stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the load failed: {spec}")
    found: dict[str, float] = json.loads(out)
    return found


async def count_for(spec: Mapping[str, Any], load_s: float) -> int:
    """Requests a connection that take about so long; warms up, too."""
    rate = 0.0
    for count in (3, 20):
        if count == 3 or rate * load_s > 10 * spec["in_flight"]:
            rate = (await send({**spec, "count": count}))["requests/s"]
    return max(2, round(rate * load_s / spec["in_flight"]))


def cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds of processes so far, of all their threads; finer than the ticks of `stat`."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(_thread_cpu_ns(task) for task in tasks) / 1e9


def _thread_cpu_ns(schedstat: Path) -> int:
    try:
        return int(schedstat.read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):  # the thread ended since it was listed
        return 0


class _Connection(asyncio.Protocol):
    """Sends one request after the other on one connection, and takes the time of each."""

    def __init__(
        self, requests: Iterator[bytes], count: int, expected: bytes, every_s: float
    ) -> None:
        self._every_s = every_s
        self._requests = requests
        self._left = count
        self._expected = expected
        self._received = b""
        self.times_s: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        self._received = b""
        self._started_s = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark:
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        # An event stream comes in chunks, the last of which is empty.
        if len(body) < int(length) if length else not body.endswith(_LAST_CHUNK):
            return
        self.times_s.append(time.perf_counter() - self._started_s)
        if self._expected not in self._received:
            self.done.set_exception(RuntimeError(self._received.decode()[:2000]))
            self._transport.close()
            return
        self._left -= 1
        if self._left and self._every_s:
            loop = asyncio.get_running_loop()
            loop.call_later(self._every_s - self.times_s[-1], self._next)
        elif self._left:
            self._next()
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


def _request(spec: dict[str, Any], connection: int) -> bytes:
    body = json.dumps(spec["body"], separators=(",", ":")).encode()
    headers = {**spec["headers"], "Content-Length": len(body)}
    if "sessions" in spec:
        headers["Mcp-Session-Id"] = spec["sessions"][connection]
    lines = [f"POST {spec['path']} HTTP/1.1", f"Host: 127.0.0.1:{spec['port']}",
             *(f"{name}: {value}" for name, value in headers.items())]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _requests(spec: dict[str, Any], connection: int) -> Iterator[bytes]:
    """The requests of one connection, without end."""
    request = _request(spec, connection)
    if "numbered" not in spec:
        yield from itertools.repeat(request)
    zeros = spec["numbered"].encode()
    for number in itertools.count(connection * spec["count"]):
        yield request.replace(zeros, b"%0*d" % (len(zeros), number))


async def _http(spec: dict[str, Any]) -> tuple[list[float], float]:
    """The times of all requests, and of the whole."""
    loop = asyncio.get_running_loop()
    expected = spec["expected"].encode()
    connections = []
    started_s = time.perf_counter()
    for number in range(spec["in_flight"]):
        requests = _requests(spec, number)
        _, connection = await loop.create_connection(
            lambda requests=requests: _Connection(
                requests, spec["count"], expected, spec.get("every_s", 0.0)
            ),
            "127.0.0.1", spec["port"],
        )  # fmt: skip
        connections.append(connection)
    await asyncio.gather(*(connection.done for connection in connections))
    took_s = time.perf_counter() - started_s
    return [t for connection in connections for t in connection.times_s], took_s


async def _nats(spec: dict[str, Any]) -> tuple[list[float], float]:
    import nats  # its import takes longer than that of all the rest

    client = await nats.connect(spec["nats_url"])
    times_s = []

    async def ask() -> None:
        for _ in range(spec["count"]):
            started_s = time.perf_counter()
            await client.request(RAW_SUBJECT, b"x" * 100, timeout=5)
            times_s.append(time.perf_counter() - started_s)

    started_s = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(spec["in_flight"])))
    took_s = time.perf_counter() - started_s
    await client.close()
    return times_s, took_s


async def _measure(spec: dict[str, Any]) -> dict[str, float]:
    times_s, took_s = await (_nats if "nats_url" in spec else _http)(spec)
    times_s.sort()
    count = len(times_s)
    return {
        "requests": count,
        "requests/s": count / took_s,
        "p50_s": times_s[count // 2],
        "p99_s": times_s[int(count * 0.99)],
    }


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(json.dumps(runner.run(_measure(json.loads(sys.argv[1])))) + "\n")

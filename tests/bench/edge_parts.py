"""The processes that `edge.py` measures and drives; each is run as `python -m tests.bench.edge_parts`.

raw NATS_URL        a bare ASGI application under uvicorn, and a bare NATS responder; prints its port
worker              a searchbus worker with one tool, `echo`
load SPEC           sends HTTP requests as fast as they are answered; prints times as JSON
nats-load SPEC      the same for plain NATS requests
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import msgspec
import nats
import uvloop

from searchbus_bus import Call, Toolset, Worker, tool
from searchbus_runtime import Process, ServiceSettings, load_settings, run
from searchbus_runtime.server import HttpServer

RAW_SUBJECT = "raw.echo"
ANSWER = (
    b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello over the bus"}],'
    b'"isError":false}}'
)


async def raw_app(scope: Any, receive: Any, send: Any) -> None:
    """Read the body and send a fixed answer of a usual size."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWER})


async def serve_raw(nats_url: str) -> None:
    """Serve both until the process is ended."""
    client = await nats.connect(nats_url)

    async def respond(message: Any) -> None:
        await client.publish(message.reply, message.data)

    await client.subscribe(RAW_SUBJECT, cb=respond)
    server = await HttpServer.start(raw_app, lifespan="off", server_header=False)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


class Text(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of echo."""

    text: str


class Echo(Toolset, name="echo"):
    """One tool."""

    @tool(title="Echo")
    async def echo(self, call: Call, arguments: Text) -> str:
        """Return the text."""
        return arguments.text


async def start_worker(process: Process[ServiceSettings]) -> None:
    """Serve the tool."""
    worker = Worker("echo", max_in_flight=256)
    worker.add(Echo())
    await process.serve(worker)


class _Connection(asyncio.Protocol):
    """Sends one request after the other on one connection, and takes the time of each."""

    def __init__(self, request: bytes, count: int, expected: bytes) -> None:
        self._request = request
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
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, mark, body = self._received.partition(b"\r\n\r\n")
        if not mark:
            return
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        # An event stream comes in chunks, the last of which is empty.
        if len(body) < int(length) if length else not body.endswith(b"0\r\n\r\n"):
            return
        self.times_s.append(time.perf_counter() - self._started_s)
        if self._expected not in self._received:
            self.done.set_exception(RuntimeError(self._received.decode()[:2000]))
            self._transport.close()
            return
        self._left -= 1
        if self._left:
            self._next()
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


async def load(spec: dict[str, Any]) -> dict[str, Any]:
    """Closed loop: `in_flight` connections, `count` requests each."""
    loop = asyncio.get_running_loop()
    body = json.dumps(spec["body"], separators=(",", ":")).encode()
    lines = [f"POST {spec['path']} HTTP/1.1", f"Host: 127.0.0.1:{spec['port']}",
             *(f"{name}: {value}" for name, value in spec["headers"].items()),
             f"Content-Length: {len(body)}"]  # fmt: skip
    request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
    started_s = time.perf_counter()
    connections = []
    for _ in range(spec["in_flight"]):
        _, connection = await loop.create_connection(
            lambda: _Connection(request, spec["count"], spec["expected"].encode()),
            "127.0.0.1", spec["port"],
        )  # fmt: skip
        connections.append(connection)
    await asyncio.gather(*(connection.done for connection in connections))
    times_s = sorted(t for connection in connections for t in connection.times_s)
    return _summary(times_s, time.perf_counter() - started_s)


async def nats_load(spec: dict[str, Any]) -> dict[str, Any]:
    """Plain requests, one at a time."""
    client = await nats.connect(spec["url"])
    times_s = []
    for _ in range(spec["count"]):
        started_s = time.perf_counter()
        await client.request(RAW_SUBJECT, b"x" * 100, timeout=5)
        times_s.append(time.perf_counter() - started_s)
    await client.close()
    return _summary(sorted(times_s), sum(times_s))


def _summary(times_s: list[float], took_s: float) -> dict[str, Any]:
    count = len(times_s)
    return {
        "requests": count,
        "requests/s": count / took_s,
        "p50_s": times_s[count // 2],
        "p99_s": times_s[int(count * 0.99)],
    }


def main() -> int:
    """Run one part."""
    part, *arguments = sys.argv[1:]
    if part == "worker":
        return run("echo", load_settings(ServiceSettings), start_worker)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if part == "raw":
            runner.run(serve_raw(arguments[0]))
        else:
            sending = {"load": load, "nats-load": nats_load}[part]
            sys.stdout.write(json.dumps(runner.run(sending(json.loads(arguments[0])))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

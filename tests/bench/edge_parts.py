"""The processes that are measured; each is run as `python -m tests.bench.edge_parts`.

raw NATS_URL    a bare ASGI application under uvicorn with httptools, and a bare NATS responder on
                RAW_SUBJECT; prints the port
chain NATS_URL  the same application, which asks that responder first: what HTTP and NATS cost between
                two processes before any work; prints the port
worker          a searchbus worker with one tool, `echo`
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import nats
import uvloop

from searchbus_bus import Call, Toolset, Worker, tool
from searchbus_runtime import Process, ServiceSettings, load_settings, run
from searchbus_runtime.server import HttpServer

from .load import RAW_SUBJECT

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
    server = await HttpServer.start(raw_app, lifespan="off", server_header=False, http="httptools")
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def serve_chain(nats_url: str) -> None:
    """Serve the application that asks the responder until the process is ended."""
    client = await nats.connect(nats_url)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await client.request(RAW_SUBJECT, ANSWER, timeout=5)
            await raw_app(scope, receive, send)

    server = await HttpServer.start(app, lifespan="off", server_header=False, http="httptools")
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


def main() -> int:
    """Run one part."""
    part, *arguments = sys.argv[1:]
    if part == "worker":
        return run("echo", load_settings(ServiceSettings), start_worker)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run({"raw": serve_raw, "chain": serve_chain}[part](*arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())

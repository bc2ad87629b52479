"""A bare MCP server to attach: `python -m tests.bench.attach_parts [stdio]`; prints its port.

/mcp has one tool, `echo`; /0/mcp, /1/mcp and so on have a hundred each. It keeps no sessions, and costs less than any
server in earnest, so that what is measured is what stands before it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import msgspec
import uvloop

from searchbus_runtime.server import HttpServer

from .toolindex import worker

TOOLS_EACH = 100
INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bare", "version": "1"},
}
ECHO = {
    "name": "echo",
    "description": "Return the text.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


def tools(number: int | None) -> list[dict[str, Any]]:
    """The tools of one server."""
    if number is None:
        return [ECHO]
    return [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in worker(number, TOOLS_EACH, random.Random(number)).catalog.tools
    ]


def answer(message: dict[str, Any], number: int | None) -> bytes | None:
    """The body for a message; None for a notification."""
    if "id" not in message:
        return None
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "tools/call":
            text = message["params"]["arguments"]["text"]
            found["result"] = {"content": [{"type": "text", "text": text}]}
        case "initialize":
            found["result"] = INFO
        case "tools/list":
            found["result"] = {"tools": tools(number)}
        case "ping":
            found["result"] = {}
        case method:
            found["error"] = {"code": -32601, "message": f"no method {method}"}
    return msgspec.json.encode(found)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Streamable HTTP with JSON answers."""
    if scope["type"] != "http":
        return
    parts = []
    while True:
        event = await receive()
        parts.append(event.get("body", b""))
        if not event.get("more_body"):
            break
    status, body = 405, b""
    if scope["method"] == "POST":
        first = scope["path"].split("/")[1]
        number = int(first) if first.isdecimal() else None
        found = answer(msgspec.json.decode(b"".join(parts)), number)
        status, body = (202, b"") if found is None else (200, found)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve() -> None:
    """Serve until the process is ended."""
    server = await HttpServer.start(app, lifespan="off", server_header=False, http="httptools")
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    """Serve a URL, or standard input and output."""
    if sys.argv[1:] == ["stdio"]:
        for line in sys.stdin.buffer:
            found = answer(msgspec.json.decode(line), None)
            if found is not None:
                sys.stdout.buffer.write(found + b"\n")
                sys.stdout.buffer.flush()
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()

"""An MCP server whose faults a row switches on: `python faulty_server.py NAME FOLDER [PORT]`.

Over standard input and output, or with a port as streamable HTTP. It imports the standard library only, so that it
starts at once. FOLDER/NAME.json says how it behaves, and is read again for each message:

    garbage       calls are answered with text that is no message, and with results that are none of MCP
    session       a session that began under another number is refused: HTTP 404, or the error -32001
    tools         number of tools beside the two, with a notice to the client
    description   of `echo`

It writes FOLDER/NAME.<process id>, and each call of `note` to FOLDER/NAME.notes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME, FOLDER = sys.argv[1], Path(sys.argv[2])
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
lock = threading.Lock()


def state() -> dict[str, Any]:
    """How to behave now."""
    found: dict[str, Any] = json.loads((FOLDER / f"{NAME}.json").read_text())
    return found


def tools() -> list[dict[str, Any]]:
    """The list of tools."""
    now = state()
    reads = {"readOnlyHint": True}
    return [
        {"name": "echo", "description": now["description"], "inputSchema": TEXT, "annotations": reads},
        {"name": "note", "description": "Write a text down.", "inputSchema": TEXT},
        *(
            {"name": f"more_{n}", "description": "One more.", "inputSchema": TEXT}
            for n in range(now["tools"])
        ),
    ]  # fmt: skip


def call(params: dict[str, Any]) -> dict[str, Any]:
    """The result of tools/call."""
    text = params["arguments"]["text"]
    if params["name"] == "note":
        with lock, (FOLDER / f"{NAME}.notes").open("a") as notes:
            notes.write(f"{text}\n")
    return {"content": [{"type": "text", "text": text}]}


def answer(message: dict[str, Any], session: int) -> str | None:
    """The line or body for a message; None for a notification."""
    method, number = message["method"], message.get("id")
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    if number is None:
        return None
    if method == "initialize":
        found["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": NAME, "version": "1"},
        }
    elif method == "ping":
        found["result"] = {}
    elif method not in ("tools/list", "tools/call"):
        found["error"] = {"code": -32601, "message": f"no method {method}"}
    elif session != state()["session"]:
        found["error"] = {"code": -32001, "message": "Session not found"}
    elif method == "tools/list":
        found["result"] = {"tools": tools()}
    elif state()["garbage"]:
        if number % 2:
            return "<html>This is no message.</html>"
        found["result"] = {"content": "neither is this"}
    else:
        found["result"] = call(message["params"])
    return json.dumps(found)


def send(line: str) -> None:
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def tell_changes() -> None:
    """A notice whenever the list is another one."""
    last = tools()
    while True:
        time.sleep(0.05)
        now = tools()
        if now != last:
            send('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        last = now


def serve_stdio() -> None:
    session = state()["session"]
    threading.Thread(target=tell_changes, daemon=True).start()
    for line in sys.stdin:
        found = answer(json.loads(line), session)
        if found is not None:
            send(found)


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP with JSON answers; the session's id is the number that it began under."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        begins = message["method"] == "initialize"
        given = self.headers.get("Mcp-Session-Id")
        session = state()["session"]
        if given is not None and not begins and int(given) != session:
            self.reply(404, "no such session")
            return
        found = answer(message, session)
        head = {"Mcp-Session-Id": str(session)} if begins else {}
        self.reply(202 if found is None else 200, found or "", **head)

    def do_GET(self) -> None:
        self.reply(405, "")

    do_DELETE = do_GET

    def reply(self, status: int, body: str, **head: str) -> None:
        data = body.encode()
        kind = "application/json" if body.startswith("{") else "text/html"
        lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        self.wfile.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)


def main() -> None:
    (FOLDER / f"{NAME}.{os.getpid()}").touch()
    if len(sys.argv) > 3:
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
    else:
        serve_stdio()


if __name__ == "__main__":
    main()

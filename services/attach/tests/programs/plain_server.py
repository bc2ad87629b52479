"""An MCP server on standard input and output, from the standard library only, so that it starts at
once. Its argument is JSON; each key is a way to behave, and none is an ordinary server.

    tools            the list of tools (default: echo, add, slow, die)
    tools_file       a file that holds the list; `touch` with another content and call `reload`
    start            "hang": does not answer initialize; "die": ends at once; "garbage": prints text
    ignore_term      ignores SIGTERM and the end of standard input
    spawn            starts a grandchild that sleeps, and writes its id to this file
    deaf             does not answer ping
    list_hang        does not answer tools/list
    long_line_mib    prints one line of that size in the place of the list
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

OBJECT = {"type": "object"}
TOOLS = [
    {
        "name": "echo",
        "description": "Say a text again.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": True},
    },
    {"name": "add", "description": "Add a line.", "inputSchema": OBJECT},
    {"name": "slow", "description": "Wait.", "inputSchema": OBJECT},
    {"name": "die", "description": "End the server.", "inputSchema": OBJECT},
    {
        "name": "die_once",
        "description": "End the server at the first call.",
        "inputSchema": OBJECT,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "environment", "description": "Variables and limits.", "inputSchema": OBJECT},
]
how = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
cancelled: dict[object, threading.Event] = {}
lock = threading.Lock()
initialized = threading.Event()


def send(message: dict) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(words: str, **more: object) -> dict:
    return {"content": [{"type": "text", "text": words}], **more}


def tools() -> list:
    if "tools_file" in how:
        return json.loads(Path(how["tools_file"]).read_text())
    return how.get("tools", TOOLS)


def call(number: object, name: str, arguments: dict, meta: dict) -> None:
    token = meta.get("progressToken")
    if name == "echo":
        result = text(arguments.get("text", ""))
    elif name == "meta":
        result = text(json.dumps(meta))
    elif name == "die":
        os._exit(3)
    elif name == "die_once":
        if not Path(how["once_file"]).exists():
            Path(how["once_file"]).touch()
            os._exit(3)
        result = text("alive")
    elif name == "environment":
        import resource

        limits = {
            "data": resource.getrlimit(resource.RLIMIT_DATA)[0],
            "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        }
        found = {"environment": dict(os.environ), "limits": limits, "group": os.getpgid(0)}
        result = text(json.dumps(found), structuredContent=found)
    elif name == "slow":
        event = cancelled.setdefault(number, threading.Event())
        for step in range(600):
            if token is not None:
                params = {"progressToken": token, "progress": step + 1, "message": "waiting"}
                send({"method": "notifications/progress", "params": params})
            send(
                {
                    "method": "notifications/message",
                    "params": {"level": "info", "data": f"step {step}"},
                }
            )
            if event.wait(0.1):
                if "cancel_file" in how:
                    Path(how["cancel_file"]).touch()
                return
        result = text("done")
    elif name == "endless_progress":
        for far in ("1", "1e999"):  # the latter is infinite
            params = f'"progressToken": {json.dumps(token)}, "progress": {far}'
            method = "notifications/progress"
            with lock:
                sys.stdout.write(
                    f'{{"jsonrpc": "2.0", "method": "{method}", "params": {{{params}}}}}\n'
                )
        result = text("done")
    elif name == "silent":
        time.sleep(arguments["seconds"])
        result = text("done")
    elif name == "reload":
        send({"method": "notifications/tools/list_changed"})
        result = text("reloaded")
    elif name == "wrong_output":
        result = text("a good answer", structuredContent={"count": "three"})
    elif name == "refuse":
        error = {"code": -32602, "message": "no\u202e such \x1b[31m thing"}
        send({"id": number, "error": arguments.get("error", error)})
        return
    elif name == "odd":
        result = {"content": [{"type": "hologram"}]}
    elif name == "failing":
        result = text("the disk is full", isError=True)
    elif name == "binary":
        result = {
            "content": [
                {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
                {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "note:///1", "text": "a note"}},
                {"type": "resource_link", "uri": "note:///2", "name": "two"},
            ],
            "structuredContent": {"n": 1},
            "_meta": {"example.org/x": 1},
        }
    else:
        send({"id": number, "error": {"code": -32602, "message": f"Unknown tool: {name}"}})
        return
    send({"id": number, "result": result})


def answer(message: dict) -> None:
    method, number = message.get("method"), message.get("id")
    params = message.get("params") or {}
    if method == "notifications/initialized":
        initialized.set()
    elif method in ("tools/list", "tools/call") and not initialized.is_set():
        # As servers that are made with the Python SDK of the first generation.
        send({"id": number, "error": {"code": -32602, "message": "Invalid request parameters"}})
    elif method == "initialize":
        if how.get("start") == "hang":
            return
        info = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "plain", "version": "1.0"},
        }
        send({"id": number, "result": info})
    elif method == "ping" and how.get("deaf"):
        return
    elif method == "tools/list":
        if how.get("list_hang"):
            return
        if "long_line_mib" in how:
            for _ in range(how["long_line_mib"]):
                sys.stdout.write("x" * 2**20)
            sys.stdout.flush()
            return
        page, size = int(params.get("cursor") or 0), how.get("page_size", 1000)
        listed = tools()
        result = {"tools": listed[page * size : (page + 1) * size]}
        if (page + 1) * size < len(listed) or how.get("endless"):
            result["nextCursor"] = str(page + 1)
        send({"id": number, "result": result})
    elif method == "tools/call":
        arguments, meta = params.get("arguments") or {}, params.get("_meta") or {}
        work = (number, params["name"], arguments, meta)
        threading.Thread(target=call, args=work, daemon=True).start()
    elif method == "notifications/cancelled":
        cancelled.setdefault(params.get("requestId"), threading.Event()).set()
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


def main() -> None:
    if how.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "spawn" in how:
        other = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
        Path(how["spawn"]).write_text(str(other.pid))
    if how.get("start") == "die":
        sys.stderr.write("no key is set\n")
        sys.exit(4)
    if how.get("start") == "greeting":
        sys.stdout.write("Welcome to this server!\n")
        sys.stdout.flush()
    while how.get("start") == "garbage":
        sys.stdout.write("not a message\n")
        sys.stdout.flush()
    for line in sys.stdin:
        answer(json.loads(line))
    while how.get("ignore_term"):
        time.sleep(1)


if __name__ == "__main__":
    main()

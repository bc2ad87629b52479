"""A server that costs little more than a raw answer: `bare.py PORT [TOOLS] [poisoned]`.

It lists TOOLS tools, `echo` and `slow` among them; `poisoned` adds one whose inputSchema is no JSON Schema. It checks no
argument. The faults of the comparison stand behind the gateways as this server.
"""

import asyncio
import json
import sys

import uvicorn

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bare", "version": "1"},
}


def tool(name: str, schema: object = SCHEMA) -> dict[str, object]:
    """One entry of tools/list."""
    return {"name": name, "description": f"Return the text ({name}).", "inputSchema": schema}


count = int(sys.argv[2]) if len(sys.argv) > 2 else 2
TOOLS = [tool("echo"), tool("slow"), *(tool(f"tool_{n}") for n in range(count - 2))]
if "poisoned" in sys.argv:
    TOOLS.insert(1, tool("poisoned", {"type": "strin", "properties": 7, "required": "text"}))


async def answer(message: dict) -> dict | None:
    """The answer to a message; None for a notification."""
    if "id" not in message:
        return None
    found: dict = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "tools/call":
            if message["params"]["name"] == "slow":
                await asyncio.sleep(1)
            text = message["params"]["arguments"]["text"]
            found["result"] = {"content": [{"type": "text", "text": str(text)}], "isError": False}
        case "tools/list":
            found["result"] = {"tools": TOOLS}
        case "initialize":
            found["result"] = INFO
        case "ping":
            found["result"] = {}
        case method:
            found["error"] = {"code": -32601, "message": f"no method {method}"}
    return found


async def app(scope: dict, receive, send) -> None:
    """Streamable HTTP with JSON answers, stateless."""
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    found = await answer(json.loads(body)) if scope["method"] == "POST" else None
    status = 200 if found else 202 if scope["method"] == "POST" else 405
    text = json.dumps(found).encode() if found else b""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", lifespan="off", access_log=False)

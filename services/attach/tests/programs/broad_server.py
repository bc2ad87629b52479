"""An MCP server on standard input and output that offers something of every kind: tools, prompts,
resources, templates, completion, progress, log, binary content and errors. From the standard
library only, so that it starts at once.

The tool `change` adds a prompt, a resource or a tool, and says so.
"""

import json
import sys

PNG = "iVBORw0KGgo="
WAV = "UklGRg=="
META = {"example.org/source": "broad"}
SCHEMA = {"type": "object"}


def schema(*required: str, **properties: object) -> dict:
    return {"type": "object", "properties": properties, "required": list(required)}


def tool(name: str, about: str, **more: object) -> dict:
    return {"name": name, "description": about, "inputSchema": SCHEMA, **more}


TOOLS = [
    tool("echo", "Say a text again.", inputSchema=schema("text", text={"type": "string"}),
         title="Echo", annotations={"readOnlyHint": True, "idempotentHint": True}),
    tool("sum", "Add two numbers.", annotations={"readOnlyHint": True},
         inputSchema=schema("a", "b", a={"type": "number"}, b={"type": "number"}),
         outputSchema=schema("sum", sum={"type": "number"})),
    tool("steps", "Report progress.",
         inputSchema=schema(count={"type": "integer", "minimum": 1, "maximum": 20})),
    tool("picture", "A picture and a sound.", annotations={"readOnlyHint": True}),
    tool("annotated", "Text with hints for the host."),
    tool("linked", "Links to resources."),
    tool("embedded", "Resources in the result."),
    tool("failing", "Fails by itself."),
    tool("refusing", "Answers with an error of the protocol."),
    tool("change", "Change a list.", inputSchema=schema("kind", kind={"type": "string"})),
]  # fmt: skip
RESOURCES = [
    {"uri": "note:///text", "name": "text", "title": "A note", "description": "Some text.",
     "mimeType": "text/plain", "size": 11, "annotations": {"audience": ["user"], "priority": 0.5}},
    {"uri": "note:///picture", "name": "picture", "mimeType": "image/png"},
]  # fmt: skip
TEMPLATES = [
    {"uriTemplate": "note:///by-number/{number}", "name": "by number", "title": "Notes",
     "description": "A note by its number.", "mimeType": "text/plain"},
]  # fmt: skip
PROMPTS = [
    {"name": "simple", "description": "Without arguments."},
    {"name": "greet", "title": "Greet", "description": "With arguments.", "arguments": [
        {"name": "name", "description": "Whom.", "required": True},
        {"name": "tone", "description": "How.", "required": False}]},
    {"name": "with picture", "description": "Content of several kinds."},
]  # fmt: skip
NAMES = ["Ada", "Alan", "Grace"]


class Refusal(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str, **more: object) -> dict:
    return {"type": "text", "text": words, **more}


def embedded(uri: str) -> dict:
    return {"type": "resource", "resource": read(uri)["contents"][0]}


def call(name: str, arguments: dict, meta: dict) -> dict:
    content, more = [], {}
    if name == "echo":
        content = [text(arguments["text"])]
    elif name == "sum":
        more = {"structuredContent": {"sum": arguments["a"] + arguments["b"]}}
        content = [text(json.dumps(more["structuredContent"]))]
    elif name == "steps":
        count = arguments.get("count", 3)
        for step in range(1, count + 1):
            if "progressToken" in meta:
                progress = {"progress": step, "total": count, "message": f"step {step}"}
                send(method="notifications/progress",
                     params={"progressToken": meta["progressToken"], **progress})  # fmt: skip
        content = [text(f"{count} steps")]
    elif name == "picture":
        content = [{"type": "image", "data": PNG, "mimeType": "image/png"},
                   {"type": "audio", "data": WAV, "mimeType": "audio/wav"}]  # fmt: skip
    elif name == "annotated":
        hints = {"audience": ["user", "assistant"], "priority": 0.7}
        content = [text("for both", annotations=hints),
                   {"type": "image", "data": PNG, "mimeType": "image/png",
                    "annotations": {"audience": ["user"], "priority": 0.2}, "_meta": META}]  # fmt: skip
        more = {"_meta": META}
    elif name == "linked":
        content = [{"type": "resource_link", **RESOURCES[0]},
                   {"type": "resource_link", "uri": "https://example.org/x", "name": "web"}]  # fmt: skip
    elif name == "embedded":
        content = [embedded("note:///text"), embedded("note:///picture")]
    elif name == "failing":
        content, more = [text("the disk is full")], {"isError": True}
    elif name == "change":
        change(arguments["kind"])
    else:
        raise Refusal(-32602, f"{name}: refused")
    return {"content": content, **more}


def change(kind: str) -> None:
    if kind == "prompts":
        PROMPTS.append({"name": "later", "description": "Added later."})
    elif kind == "resources":
        RESOURCES.append({"uri": "note:///later", "name": "later"})
    else:
        TOOLS.append(tool("later", "Added later."))
    send(method=f"notifications/{kind}/list_changed")


def read(uri: str) -> dict:
    if uri == "note:///text":
        body = {"mimeType": "text/plain", "text": "hello\nworld", "_meta": META}
    elif uri == "note:///picture":
        body = {"mimeType": "image/png", "blob": PNG}
    elif uri.startswith("note:///by-number/"):
        body = {"mimeType": "text/plain", "text": f"note {uri.rpartition('/')[2]}"}
    else:
        raise Refusal(-32002, "Resource not found")
    return {"contents": [{"uri": uri, **body}]}


def fill(name: str, arguments: dict) -> dict:
    if name == "simple":
        messages = [{"role": "user", "content": text("A simple prompt.")}]
    elif name == "greet":
        words = f"Greet {arguments['name']} in a {arguments.get('tone', 'plain')} tone."
        messages = [{"role": "user", "content": text(words)},
                    {"role": "assistant", "content": text("Hello.")}]  # fmt: skip
    elif name == "with picture":
        picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
        messages = [{"role": "user", "content": picture},
                    {"role": "user", "content": embedded("note:///text")}]  # fmt: skip
    else:
        raise Refusal(-32602, f"Unknown prompt {name}")
    return {"description": f"The prompt {name}.", "messages": messages}


def suggest(params: dict) -> dict:
    ref, typed = params["ref"], params["argument"]["value"]
    known = (params.get("context") or {}).get("arguments") or {}
    if ref["type"] == "ref/prompt":
        values = [name for name in NAMES if name.lower().startswith(typed.lower())]
        values += [f"tone for {known['name']}"] if "name" in known else []
    else:
        values = [str(number) for number in range(1, 4) if str(number).startswith(typed)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def result(method: str, params: dict) -> dict:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {
                "tools": {"listChanged": True}, "prompts": {"listChanged": True},
                "resources": {"listChanged": True}, "completions": {}, "logging": {},
            },
            "serverInfo": {"name": "broad", "version": "1.0"},
        }  # fmt: skip
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    if method == "resources/list":  # one on each page
        at = int(params.get("cursor") or 0)
        more = {"nextCursor": str(at + 1)} if at + 1 < len(RESOURCES) else {}
        return {"resources": RESOURCES[at : at + 1], **more}
    if method == "resources/templates/list":
        return {"resourceTemplates": TEMPLATES}
    if method == "resources/read":
        return read(params["uri"])
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "prompts/get":
        return fill(params["name"], params.get("arguments") or {})
    if method == "completion/complete":
        return suggest(params)
    if method in ("ping", "logging/setLevel"):
        return {}
    raise Refusal(-32601, f"no method {method}")


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        try:
            answer = {"result": result(message["method"], message.get("params") or {})}
        except Refusal as refusal:
            answer = {"error": {"code": refusal.code, "message": refusal.message}}
        send(id=message["id"], **answer)


if __name__ == "__main__":
    main()

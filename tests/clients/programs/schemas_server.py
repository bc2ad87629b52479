"""An MCP server whose tools have schemas of every age and generator; stdio, one line a message."""

import json
import sys

SCHEMAS = {
    "union": {
        "type": "object",
        "properties": {
            "value": {"type": ["boolean", "string"], "description": "A union of types."},
            "words": {"type": ["array", "null"], "items": {"type": "string"}, "default": None},
            "level": {"type": ["string", "null"], "enum": ["low", "high", None]},
        },
        "required": ["value"],
    },
    "draft4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.org/draft4",
        "type": "object",
        "properties": {
            "value": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            "other": {"$ref": "#/definitions/other"},
        },
        "definitions": {"other": {"type": "string", "maxLength": 9}},
        "required": ["value"],
    },
    "draft7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://example.org/draft7",
        "type": "object",
        "properties": {
            "value": {"type": "array", "items": [{"type": "number"}, {"type": "string"}],
                      "additionalItems": False},
            "a": {"type": "string"},
            "b": {"type": "string"},
        },
        "dependencies": {"a": ["b"]},
        "required": ["value"],
    },
    "openapi": {
        "type": "object",
        "properties": {
            "value": {"type": "string", "nullable": True},
            "place": {"$ref": "#/definitions/place", "nullable": True},
            "count": {"type": "integer", "format": "int64"},
            "anything": {"description": "Says no type."},
        },
        "definitions": {
            "place": {"type": "object", "properties": {"x": {"type": ["integer", "string"]}}}
        },
    },
    "tree": {
        "type": "object",
        "properties": {"value": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "nodes": {"type": ["array", "null"], "items": {"$ref": "#/$defs/node"}},
                },
            }
        },
    },
}  # fmt: skip


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "schemas", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [
            {"name": name, "description": f"Echoes a value: {name}.", "inputSchema": schema}
            for name, schema in SCHEMAS.items()
        ]}  # fmt: skip
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(params.get("arguments", {}))}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        found = answer(message["method"], message.get("params") or {})
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": found}
        print(json.dumps(reply), flush=True)

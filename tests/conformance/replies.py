"""What the fixtures of the conformance suite reply with."""

from __future__ import annotations

from msgspec import Struct

from searchbus_bus import Call
from searchbus_contracts import TextContent, ToolCall, ToolReply

TOOLSET = "conformance"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
SIMPLE_TEXT = "This is a simple text response for testing."


class Nothing(Struct):
    pass


def text(value: str) -> ToolReply:
    return ToolReply(content=(TextContent(text=value),))


def failed(value: str) -> ToolReply:
    return ToolReply(content=(TextContent(text=value),), is_error=True)


async def reply_simple_text(call: Call, request: ToolCall) -> ToolReply:
    return text(SIMPLE_TEXT)

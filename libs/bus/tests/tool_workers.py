"""Workers with tools, and what a directory knows of them."""

from __future__ import annotations

from searchbus_bus import Call, Directory, Worker
from searchbus_contracts import ToolCall, ToolDescriptor, ToolReply


async def reply(call: Call, request: ToolCall) -> ToolReply:
    return ToolReply()


def described(name: str, toolset: str) -> ToolDescriptor:
    return ToolDescriptor(
        name=name, toolset=toolset, description=name, input_schema={"type": "object"}
    )


def tool_worker(service: str, *names: str, toolset: str | None = None) -> Worker:
    worker = Worker(service)
    for name in names:
        worker.add_tool(described(name, toolset or service), reply)
    return worker


def names(directory: Directory) -> list[str]:
    return [tool.name for catalog in directory.catalogs for tool in catalog.tools]

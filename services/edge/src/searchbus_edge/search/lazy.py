"""find_tools and call_tool: two tools that give access to all others.

`/mcp/lazy` lists only these and the pinned tools, for hosts whose context cannot hold every schema.
tools/search finds there what call_tool can call.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from searchbus_contracts import (
    Actor,
    Fault,
    ToolAnnotations,
    ToolDescriptor,
    ToolReply,
    input_schema,
    json_schema,
)
from searchbus_contracts.toolindex import MAX_FIND_CHARS

from ..calls.faults import failed_reply
from ..lists.view import ListedTool, View
from .finder import PAGE_SIZE, Finder

__all__ = ["CALL_TOOL", "LAZY", "LAZY_TOOLS", "CallTool", "LazyTools", "is_call_tool"]

LAZY = "lazy"
_MAX_LINE_CHARS = 200


class FindTools(Struct, forbid_unknown_fields=True):
    """Arguments of find_tools."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_FIND_CHARS,
            description="What you want to do, in your own words, or a tool's name.",
        ),
    ]
    limit: Annotated[int, Meta(ge=1, le=PAGE_SIZE, description="How many tools at most.")] = 5
    detail: Annotated[
        Literal["brief", "full"], Meta(description="full adds description and input schema.")
    ] = "brief"


class FoundTool(Struct, omit_defaults=True):
    """One tool that was found."""

    name: Annotated[str, Meta(description="For call_tool.")]
    summary: Annotated[str, Meta(description="What it does, in one line.")]
    required: Annotated[list[str], Meta(description="Arguments that it must be given.")]
    description: str | None = None
    input_schema: Annotated[
        dict[str, Any] | None, Meta(description="JSON Schema of the arguments.")
    ] = None


class CallTool(Struct, forbid_unknown_fields=True):
    """Arguments of call_tool."""

    name: Annotated[str, Meta(min_length=1, max_length=128, description="As find_tools names it.")]
    arguments: Annotated[dict[str, Any], Meta(description="The tool's own arguments.")] = {}


_FIND_TOOLS_RESULTS = msgspec.defstruct("FindToolsResults", [("results", list[FoundTool])])
FIND_TOOLS = ToolDescriptor(
    name="find_tools",
    toolset=LAZY,
    title="Find tools",
    description="Find tools for a task among all that this server has. Returns names with one line "
    'each and the required arguments; detail "full" adds the schemas. Nothing fits: an empty list.',
    input_schema=input_schema(FindTools),
    output_schema=json_schema(_FIND_TOOLS_RESULTS),
    renderer="results",
    annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    examples=("which tools are there for this", "find a tool that can do a job"),
    keywords=("capabilities", "available"),
)
CALL_TOOL = ToolDescriptor(
    name="call_tool",
    toolset=LAZY,
    title="Call a tool",
    description="Call a tool that find_tools found, with its own arguments.",
    input_schema=input_schema(CallTool),
    examples=("run a tool by its name", "execute a named tool with these arguments"),
    keywords=("invoke", "execute", "run"),
)
LAZY_TOOLS = (FIND_TOOLS, CALL_TOOL)


def is_call_tool(listed: ListedTool) -> bool:
    """Whether it calls another tool, which its argument `name` names."""
    return listed.descriptor.toolset == LAZY and listed.descriptor.name == CALL_TOOL.name


class LazyTools:
    """Serves find_tools; reads the arguments of call_tool, which `requests.tool_calls` follows."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    def called(self, listed: ListedTool, arguments: dict[str, Any]) -> CallTool | None:
        """The call that call_tool asks for; None for find_tools."""
        if listed.descriptor.name == FIND_TOOLS.name:
            return None
        return msgspec.convert(arguments, CallTool)

    async def find(self, view: View, actor: Actor, arguments: dict[str, Any]) -> ToolReply:
        """Serve find_tools: the best tools that call_tool can call, so not these two.

        Args:
            view: what `/mcp` offers.
        """
        wanted = msgspec.convert(arguments, FindTools)
        try:
            limit = wanted.limit + len(LAZY_TOOLS)
            tools = await self._finder.best_tools(actor, view, wanted.query, limit)
        except Fault as fault:
            return failed_reply(fault)
        callable_ = [tool for tool in tools if tool.descriptor.toolset != LAZY][: wanted.limit]
        found = [_brief(tool, full=wanted.detail == "full") for tool in callable_]
        return ToolReply(structured={"results": msgspec.to_builtins(found)})


def _brief(tool: ListedTool, *, full: bool) -> FoundTool:
    descriptor = tool.descriptor
    required = descriptor.input_schema.get("required")
    return FoundTool(
        name=tool.name,
        summary=_one_line(descriptor.description),
        required=[str(name) for name in required] if isinstance(required, list) else [],
        description=descriptor.description if full else None,
        input_schema=tool.input_schema if full else None,
    )


def _one_line(description: str) -> str:
    """The first sentence, or as much of it as fits."""
    text = " ".join(description.split())
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    if len(first) <= _MAX_LINE_CHARS:
        return first
    return first[: _MAX_LINE_CHARS - 1].rsplit(" ", 1)[0] + "…"

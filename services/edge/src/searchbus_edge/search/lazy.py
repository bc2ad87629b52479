"""find_tools and call_tool: two tools that give access to all others.

`/mcp/lazy` lists only these and the pinned tools, for hosts whose context cannot hold every schema.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Meta, Struct

from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ToolAnnotations,
    ToolDescriptor,
    encode,
    input_schema,
    json_schema,
)
from searchbus_contracts.toolindex import MAX_FIND_CHARS

from ..calls.faults import error_result
from ..lists.view import ListedTool, View
from .finder import PAGE_SIZE, Finder

__all__ = ["LAZY", "LAZY_TOOLS", "LazyTools"]

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
)
CALL_TOOL = ToolDescriptor(
    name="call_tool",
    toolset=LAZY,
    title="Call a tool",
    description="Call a tool that find_tools found, with its own arguments.",
    input_schema=input_schema(CallTool),
)
LAZY_TOOLS = (FIND_TOOLS, CALL_TOOL)

Result = types.CallToolResult | types.InputRequiredResult
CallInner = Callable[[types.CallToolRequestParams], Awaitable[Result]]


class LazyTools:
    """Serves both tools over the view of `/mcp`."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    async def call(
        self,
        name: str,
        view: View,
        actor: Actor,
        params: types.CallToolRequestParams,
        call: CallInner,
    ) -> Result:
        """Serve one call.

        Args:
            view: what `/mcp` offers.
            call: calls a tool of that view.
        """
        given = params.arguments or {}
        if name == FIND_TOOLS.name:
            return await self._find(view, actor, msgspec.convert(given, FindTools))
        return await self._call(view, params, msgspec.convert(given, CallTool), call)

    async def _find(self, view: View, actor: Actor, arguments: FindTools) -> types.CallToolResult:
        try:
            tools = await self._finder.best_tools(actor, view, arguments.query, arguments.limit)
        except Fault as fault:
            return error_result(fault)
        found = msgspec.to_builtins([_brief(t, full=arguments.detail == "full") for t in tools])
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=encode(found).decode())],
            structured_content={"results": found},
        )

    async def _call(
        self, view: View, params: types.CallToolRequestParams, arguments: CallTool, call: CallInner
    ) -> Result:
        listed = view.tools.get(arguments.name)
        if listed is not None and listed.descriptor.toolset == LAZY:
            return error_result(
                Fault(
                    ErrorCode.INVALID_ARGUMENT, f"{arguments.name} cannot be called through itself."
                )
            )
        try:
            return await call(
                params.model_copy(update={"name": arguments.name, "arguments": arguments.arguments})
            )
        except MCPError as error:
            if error.error.code != types.INVALID_PARAMS:
                raise
            # The model chose name and arguments: an error result lets it correct them.
            hint = error.error.message.replace("tools/list shows", "find_tools finds")
            return error_result(Fault(ErrorCode.INVALID_ARGUMENT, hint))


def _brief(tool: ListedTool, *, full: bool) -> FoundTool:
    descriptor = tool.descriptor
    required = descriptor.input_schema.get("required")
    return FoundTool(
        name=tool.name,
        summary=_one_line(descriptor.description),
        required=[str(name) for name in required] if isinstance(required, list) else [],
        description=descriptor.description if full else None,
        input_schema=descriptor.input_schema if full else None,
    )


def _one_line(description: str) -> str:
    """The first sentence, or as much of it as fits."""
    text = " ".join(description.split())
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    if len(first) <= _MAX_LINE_CHARS:
        return first
    return first[: _MAX_LINE_CHARS - 1].rsplit(" ", 1)[0] + "…"

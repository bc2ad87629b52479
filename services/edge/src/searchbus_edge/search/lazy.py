"""find_tools and call_tool: two tools that give access to all others.

find_tools without a query is where an agent starts: it lists the toolsets, then the tools of one.

`/mcp/lazy` lists only these and the pinned tools, for hosts whose context cannot hold every schema.
tools/search finds there what call_tool can call.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import Meta, Struct

from searchbus_bus import Call, Toolset, declared_tools, tool
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    TextContent,
    ToolAnnotations,
    ToolDescriptor,
    ToolReply,
    json_schema,
)
from searchbus_contracts.codec import doc
from searchbus_contracts.toolindex import MAX_FIND_CHARS

from ..catalog.registry import Registry
from ..catalog.view import LAZY, ListedTool, View
from ..tools.call import ToolCalls, ToolRequest
from .finder import PAGE_SIZE, Finder

_MAX_LINE_CHARS = 200
_PAGE = 50
"""Toolsets of an overview, and tools of a toolset; `PAGE_SIZE` with their schemas."""
_NEAREST = 2
"""Tools in place of none: a model judges better than a gate whether one of them serves."""
_OWN = 2
"""These two tools themselves, which the index finds as well."""
TOOL_REFERENCES = "dev.searchbus/tool_references"
"""Key of `_meta`: of a call whose client passes blocks of the type tool_reference on to a model's
API, and of the result, where they are. MCP's own content is of other types only, and clients
refuse a whole result that has one more."""


class FindTools(Struct, forbid_unknown_fields=True):
    """Arguments of find_tools."""

    query: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_FIND_CHARS)] | None,
        doc(
            "What you want to do, in your own words, or a tool's name. Without: the "
            "toolsets there are, or all tools of `toolset`."
        ),
    ] = None
    toolset: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None, doc("Only of this toolset.")
    ] = None
    limit: Annotated[int, doc("How many tools at most, with a query.", ge=1, le=PAGE_SIZE)] = 5
    offset: Annotated[
        int, doc("Without a query: `next_offset` of the page before.", ge=0, le=1_000_000)
    ] = 0
    detail: Annotated[Literal["brief", "full"], doc("full adds description and input schema.")] = (
        "brief"
    )


class FoundTool(Struct, omit_defaults=True):
    """One tool that was found."""

    name: Annotated[str, doc("To call it by.")]
    summary: Annotated[str, doc("What it does, in one line.")]
    required: Annotated[list[str], doc("Arguments that it must be given.")]
    description: str | None = None
    input_schema: Annotated[dict[str, Any] | None, doc("JSON Schema of the arguments.")] = None
    confidence: Annotated[
        Literal["low"] | None, doc("Nothing fits well; this is among the nearest.")
    ] = None


class FoundToolset(Struct):
    """One toolset of the overview."""

    toolset: str
    tools: Annotated[int, doc("How many there are.")]
    summary: Annotated[str, doc("Names of its first tools, in one line.")]


class FindToolsResults(Struct, omit_defaults=True):
    """Tools for a query or of a toolset, or toolsets."""

    results: list[FoundTool]
    toolsets: list[FoundToolset] | None = None
    total: Annotated[int | None, doc("Without a query: how many there are on all pages.")] = None
    next_offset: int | None = None


class CallTool(Struct, forbid_unknown_fields=True):
    """Arguments of call_tool."""

    name: Annotated[str, doc("As find_tools names it.", min_length=1, max_length=128)]
    arguments: Annotated[dict[str, Any], doc("The tool's own arguments.")] = {}


class Lazy(Toolset, name=LAZY):
    """Both tools, on the bus, where the tool index finds them, and at this edge's endpoints.

    At the endpoints `ToolCalls` follows call_tool itself, so that a large reply is not decoded.
    """

    def __init__(self, finder: Finder, registry: Registry, calls: ToolCalls) -> None:
        self._finder = finder
        self._registry = registry
        self._calls = calls

    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        """See Toolset."""
        return _configured(descriptor)

    @tool(
        title="Find tools",
        annotations=ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
        examples=("which tools are there for this", "find a tool that can do a job"),
        keywords=("capabilities", "available"),
    )
    async def find_tools(self, call: Call, arguments: FindTools) -> ToolReply:
        """Find tools for a task among all that this server has. Returns names with one line each
        and the required arguments; detail "full" adds the schemas. Nothing fits well: the nearest,
        with confidence "low". Without a query: an overview of the toolsets.
        """
        view = self._reached(call.actor)
        if arguments.query is not None:
            reply = await self._matches(view, call.actor, arguments, arguments.query)
        else:
            await self._finder.admit(call.actor)
            reply = _listing(_toolsets(view, call.actor), arguments)
        return _referred(reply) if TOOL_REFERENCES in call.client_capabilities else reply

    @tool(
        title="Call a tool",
        examples=("run a tool by its name", "execute a named tool with these arguments"),
        keywords=("invoke", "execute", "run"),
    )
    async def call_tool(self, call: Call, arguments: CallTool) -> ToolReply:
        """Call a tool that find_tools found, with its own arguments."""
        view = self._reached(call.actor)
        listed = view.tool_of[LAZY, "call_tool"]
        given = msgspec.to_builtins(arguments)
        request = ToolRequest(
            call.actor, self._calls.resolver.target(view, listed.name, given), given,
            capabilities=call.client_capabilities, input_responses=call.input_responses,
            state=call.state, timeout_s=call.remaining_s, for_composite=True,
        )  # fmt: skip
        try:
            return (await self._calls.call(request)).reply.decoded()
        except MCPError as error:
            raise Fault(ErrorCode.INVALID_ARGUMENT, error.error.message) from None

    def _reached(self, actor: Actor) -> View:
        """The view of `/mcp`, or of the endpoint that the request came to, where that joins
        toolsets; raises Fault(unavailable) while there is no index."""
        if not self._finder.offered():
            raise Fault(
                ErrorCode.UNAVAILABLE,
                "Tools cannot be found now: no tool index is running. Try again later.",
            )
        return self._registry.view(actor.endpoint)

    async def _matches(self, view: View, actor: Actor, wanted: FindTools, query: str) -> ToolReply:
        if wanted.toolset is not None:
            _tools_of(_toolsets(view, actor), wanted.toolset)
        tools, certain = await self._finder.best_tools(
            actor, view, query, wanted.limit + _OWN, toolset=wanted.toolset, nearest=_NEAREST + _OWN
        )
        number = wanted.limit if certain else min(wanted.limit, _NEAREST)
        callable_ = [tool for tool in tools if not tool.own][:number]
        found = [_brief(t, full=wanted.detail == "full", certain=certain) for t in callable_]
        return ToolReply(structured=msgspec.to_builtins(FindToolsResults(found)))


def own_tools(call_tool_name: str = "call_tool") -> tuple[ToolDescriptor, ToolDescriptor]:
    """Both tools as endpoints list them; some hosts reserve the name of call_tool."""
    call, find = (_configured(found) for found in declared_tools(Lazy))
    if call_tool_name != call.name:
        call = msgspec.structs.replace(call, qualified_name=call_tool_name)
    return find, call


def _configured(descriptor: ToolDescriptor) -> ToolDescriptor:
    """find_tools returns a ToolReply, for the form of its text: its schema is declared here."""
    if descriptor.name != "find_tools":
        return descriptor
    return msgspec.structs.replace(
        descriptor, output_schema=json_schema(FindToolsResults), renderer="results"
    )


def _toolsets(view: View, actor: Actor) -> dict[str, list[ListedTool]]:
    """What call_tool can call for the actor, by toolset."""
    found: dict[str, list[ListedTool]] = {}
    for listed in view.tools.values():
        if not listed.own and actor.holds(listed.required_roles):
            found.setdefault(listed.descriptor.toolset, []).append(listed)
    return found


def _tools_of(toolsets: dict[str, list[ListedTool]], name: str) -> list[ListedTool]:
    """The tools of one; raises Fault(invalid_argument), of a hidden one too."""
    if name not in toolsets:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"toolset: there is no {name}. Omit it to list the toolsets.",
        )
    return toolsets[name]


def _listing(toolsets: dict[str, list[ListedTool]], wanted: FindTools) -> ToolReply:
    """A page of the toolsets, or of the tools of one."""
    full = wanted.detail == "full"
    start, end = wanted.offset, wanted.offset + (PAGE_SIZE if full and wanted.toolset else _PAGE)
    if wanted.toolset is None:
        total = len(toolsets)
        sets = [
            FoundToolset(name, len(tools), _cut(", ".join(tool.name for tool in tools[:_PAGE])))
            for name, tools in list(toolsets.items())[start:end]
        ]
        page = FindToolsResults([], toolsets=sets)
    else:
        tools = _tools_of(toolsets, wanted.toolset)
        total = len(tools)
        page = FindToolsResults(
            [_brief(tool, full=full, certain=True) for tool in tools[start:end]]
        )
    page.total, page.next_offset = total, end if end < total else None
    # The text has the offset too: a model may see nothing else.
    text = msgspec.json.encode(page).decode()
    return ToolReply(content=(TextContent(text=text),), structured=msgspec.to_builtins(page))


def _referred(reply: ToolReply) -> ToolReply:
    """The reply with a reference to each tool."""
    found = (reply.structured or {})["results"]
    references = [{"type": "tool_reference", "tool_name": tool["name"]} for tool in found]
    return msgspec.structs.replace(reply, meta={TOOL_REFERENCES: references})


def _brief(tool: ListedTool, *, full: bool, certain: bool) -> FoundTool:
    descriptor = tool.descriptor
    required = descriptor.input_schema.get("required")
    return FoundTool(
        name=tool.name,
        summary=_one_line(descriptor.description),
        required=[str(name) for name in required] if isinstance(required, list) else [],
        description=descriptor.description if full else None,
        input_schema=tool.input_schema if full else None,
        confidence=None if certain else "low",
    )


def _one_line(description: str) -> str:
    """The first sentence, or as much of it as fits."""
    text = " ".join(description.split())
    return _cut(re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0])


def _cut(line: str) -> str:
    """The line, cut at a word where it is long."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    return line[: _MAX_LINE_CHARS - 1].rsplit(" ", 1)[0] + "…"

"""What the caller may use, page by page, and its use: calls with their events, prompts, resources.

A page of the page's list holds names and first lines; an entry has schemas. Whatever the caller may
not use is in neither.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Depends, FastAPI, Query, Request
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from pydantic import BaseModel

from searchbus_bus.telemetry import trace_id
from searchbus_contracts import Actor, ErrorCode, Fault, ResourceTemplate, ToolEvent, encode

from ...catalog import render
from ...catalog.prompts import Prompts
from ...catalog.resources import Resources
from ...catalog.view import View
from ...http.answer import INERT, DisconnectWatch, EventStream, PlainAnswer
from ...http.faults import HttpError, problem_of
from ...tools.call import ForwardedEvents
from ..api import known_event
from ..calls import HttpCalls, failure_of
from .access import API, Access, Streamed, Visitor

Kind = Literal["tool", "prompt", "resource"]
_PAGE = 100
_LINE_CHARS = 200
_REVISION = "2026-07-28"
"""Decides the code of a resource that is not there."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool, prompt or resource by its name on /mcp or its URI; `held`: why calls are refused."""

    kind: Kind
    name: str
    toolset: str
    title: str = ""
    line: str = ""
    held: str = ""
    read_only: bool = False
    costly: bool = False


class CallBody(Struct, frozen=True):
    """Call a tool by its name on /mcp."""

    name: str
    arguments: dict[str, Any] = {}


class PromptBody(Struct, frozen=True):
    """Fill in a prompt."""

    name: str
    arguments: dict[str, str] = {}


class ResourceBody(Struct, frozen=True):
    """Read a resource; a template's variables are in the URI."""

    uri: str


def add_catalogue(app: FastAPI, access: Access, prompts: Prompts, resources: Resources) -> None:
    """Add the requests of this module to the console's application."""
    calls = access.calls

    @app.get(f"{API}/catalogue")
    async def catalogue(
        kind: Kind = "tool",
        toolset: str = "",
        text: Annotated[str, Query(max_length=200)] = "",
        offset: Annotated[int, Query(ge=0)] = 0,
        visitor: Visitor = Depends(access.visitor),
    ) -> PlainAnswer:
        words = text.lower().split()
        found = [
            (name, item)
            for name, item in _visible(calls.everything, visitor.actor, kind)
            if (not toolset or item.toolset == toolset)
            and all(word in f"{name} {item.title}".lower() for word in words)
        ]
        shown = [_entry(calls.everything, kind, *one) for one in found[offset : offset + _PAGE]]
        return PlainAnswer(encode({"total": len(found), "entries": shown}))

    @app.get(f"{API}/entry")
    async def entry(
        name: str, kind: Kind = "tool", visitor: Visitor = Depends(access.visitor)
    ) -> PlainAnswer:
        found = _detail(calls.everything, visitor.actor, kind, name)
        if found is None:
            raise Fault(ErrorCode.NOT_FOUND, f"There is no such {kind}. List them again.")
        return PlainAnswer(encode(found))

    @app.post(f"{API}/call")
    async def call(request: Request, visitor: Visitor = Depends(access.visitor)) -> Streamed:
        wanted = await access.body(visitor, request, CallBody)
        return _streamed(lambda stream, trace: _call(calls, visitor, wanted, stream, trace))

    @app.post(f"{API}/prompt")
    async def prompt(request: Request, visitor: Visitor = Depends(access.visitor)) -> Streamed:
        wanted = await access.body(visitor, request, PromptBody)
        get = partial(prompts.get, visitor.actor, calls.everything, wanted.name, wanted.arguments)
        return _streamed(lambda _, trace: _ask(calls, visitor, "prompts/get", trace, get))

    @app.post(f"{API}/resource")
    async def resource(request: Request, visitor: Visitor = Depends(access.visitor)) -> Streamed:
        wanted = await access.body(visitor, request, ResourceBody)
        given = visitor.actor, calls.everything, wanted.uri
        read = partial(resources.read, *given, revision=_REVISION)
        return _streamed(lambda _, trace: _ask(calls, visitor, "resources/read", trace, read))


def visible_toolsets(view: View, actor: Actor) -> list[str]:
    """The toolsets of which an actor may use something, sorted."""
    kinds: tuple[Kind, ...] = ("tool", "prompt", "resource")
    return sorted({item.toolset for kind in kinds for _, item in _visible(view, actor, kind)})


def visible_tools(view: View, actor: Actor) -> list[tuple[str, str]]:
    """Name and toolset of the tools that an actor may call."""
    return [(name, item.toolset) for name, item in _visible(view, actor, "tool")]


def _visible(view: View, actor: Actor, kind: Kind) -> Iterator[tuple[str, Any]]:
    """Name and descriptor of what an actor may use; of thousands few are shown."""
    named: Iterator[tuple[str, Any]]
    if kind == "tool":
        named = ((name, listed.descriptor) for name, listed in view.tools.items())
    elif kind == "prompt":
        named = iter(view.prompts.items())
    else:
        templates = ((t.uri_template, t) for _, t in view.templates if t.listed)
        named = iter([*view.resources.items(), *templates])
    return ((name, item) for name, item in named if actor.holds(item.required_roles))


def _entry(view: View, kind: Kind, name: str, item: Any) -> Entry:
    found = Entry(
        kind=kind, name=name, toolset=item.toolset, title=item.title or "",
        line=(item.description or "").strip().partition("\n")[0][:_LINE_CHARS],
    )  # fmt: skip
    if kind != "tool":
        return found
    hints = item.annotations
    return msgspec.structs.replace(
        found,
        held=view.tools[name].held,
        read_only=bool(hints is not None and hints.read_only_hint),
        costly=item.costly,
    )


def _detail(view: View, actor: Actor, kind: Kind, name: str) -> dict[str, Any] | None:
    """An entry with all that there is to say; None where the actor may not use it."""
    item = next((item for own, item in _visible(view, actor, kind) if own == name), None)
    if item is None:
        return None
    listed = view.tools[name] if kind == "tool" else None
    shown: Any
    if listed is not None:
        shown = render.tool(listed)
    elif kind == "prompt":
        shown = render.prompt(name, item)
    else:
        is_template = isinstance(item, ResourceTemplate)
        shown = render.template(item) if is_template else render.resource(item)
    return {
        "kind": kind,
        "toolset": item.toolset,
        "service": view.services.get(item.toolset, ""),
        "own_name": item.name,  # within its toolset
        "required_roles": item.required_roles,
        "held": listed.held if listed is not None else "",
        "untrusted": item.untrusted,
        "timeout_ms": item.timeout_ms if listed is not None else 0,
        "shown": shown.model_dump(by_alias=True, mode="json", exclude_none=True),
    }


_Work = Callable[[EventStream, list[str]], Awaitable[dict[str, Any]]]
"""Sends its events, notes the id of its trace, and returns its result; raises Fault, HttpError."""


def _streamed(work: _Work) -> Streamed:
    """An event stream: what the work sends, then `result` or `problem`."""

    async def serve(receive: Any, send: Any) -> None:
        stream = EventStream(send, INERT)
        trace: list[str] = []
        with DisconnectWatch(receive, stream):
            try:
                kind, found = b"result", await work(stream, trace)
            except (Fault, HttpError) as error:
                kind, found = b"problem", msgspec.to_builtins(problem_of(error))
            await stream.event(encode({**found, "trace_id": "".join(trace)}), kind, more=False)

    return Streamed(serve)


async def _call(
    calls: HttpCalls, visitor: Visitor, wanted: CallBody, stream: EventStream, trace: list[str]
) -> dict[str, Any]:
    """Call a tool, with events `progress` and `log`."""

    async def forward(event: ToolEvent) -> None:
        await stream.event(encode(known_event(event)), event.kind.encode())

    async with ForwardedEvents(forward) as on_event:
        served = await calls.call(
            visitor.received, calls.everything, wanted.name, wanted.arguments,
            on_event=on_event, on_trace=trace.append,
        )  # fmt: skip
    reply = served.reply
    structured = None if reply.structured is None else msgspec.Raw(reply.structured)
    return {"content": reply.content, "structured": structured, "meta": reply.meta}


async def _ask(
    calls: HttpCalls,
    visitor: Visitor,
    method: str,
    trace: list[str],
    asked: Callable[[], Awaitable[BaseModel]],
) -> dict[str, Any]:
    """The result of a method of MCP."""
    with calls.message(visitor.received, method):
        trace.append(trace_id())
        try:
            found = await asked()
        except MCPError as error:
            raise failure_of(error, method) from None
    return found.model_dump(by_alias=True, mode="json", exclude_none=True)

"""What the caller may use, page by page, and calls of tools with their events.

A page of the page's list holds names and first lines; an entry has schemas. Whatever the caller may
not use is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import FastAPI, Query, Request
from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Fault, ToolEvent, encode

from ...catalog import render
from ...catalog.view import View
from ...http.answer import INERT, DisconnectWatch, EventStream, PlainAnswer
from ...http.faults import HttpError, problem_of
from ...tools.call import ForwardedEvents
from ..api import known_event
from ..calls import HttpCalls
from .access import Access, Visitor
from .answers import API, Streamed, body_of

Kind = Literal["tool", "prompt", "resource"]
_PAGE = 100
_LINE_CHARS = 200


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool, a prompt or a resource in the list.

    Args:
        name: on /mcp; of a resource its URI or URI template.
        held: why calls are refused.
    """

    kind: Kind
    name: str
    toolset: str
    title: str = ""
    line: str = ""
    held: str = ""
    read_only: bool = False
    costly: bool = False


class Detail(Struct, frozen=True, kw_only=True):
    """One entry.

    Args:
        own_name: within its toolset.
        untrusted: whether others write what it returns.
        shown: as MCP lists it.
    """

    kind: Kind
    toolset: str
    service: str
    own_name: str
    required_roles: tuple[str, ...]
    held: str
    untrusted: bool
    timeout_ms: int
    shown: dict[str, Any]


class Page(Struct, frozen=True, kw_only=True):
    """A part of the list; `total` counts all that match."""

    total: int
    entries: list[Entry]


class CallBody(Struct, frozen=True):
    """Call a tool by its name on /mcp."""

    name: str
    arguments: dict[str, Any] = {}


def add_catalogue(app: FastAPI, access: Access, calls: HttpCalls) -> None:
    """Add the requests of this module to the console's application."""

    @app.get(f"{API}/catalogue")
    async def catalogue(
        request: Request,
        kind: Kind = "tool",
        toolset: str = "",
        text: Annotated[str, Query(max_length=200)] = "",
        offset: Annotated[int, Query(ge=0)] = 0,
    ) -> PlainAnswer:
        visitor = await access.visitor(request)
        words = text.lower().split()
        found = [
            (name, item)
            for name, item in _visible(calls.everything, visitor.actor, kind)
            if (not toolset or item.toolset == toolset)
            and (not words or _matches(f"{name} {item.title}".lower(), words))
        ]
        shown = [_entry(calls.everything, kind, *one) for one in found[offset : offset + _PAGE]]
        return PlainAnswer(encode(Page(total=len(found), entries=shown)))

    @app.get(f"{API}/entry")
    async def entry(request: Request, name: str, kind: Kind = "tool") -> PlainAnswer:
        visitor = await access.visitor(request)
        found = _detail(calls.everything, visitor.actor, kind, name)
        if found is None:
            raise Fault(ErrorCode.NOT_FOUND, f"There is no such {kind}. List them again.")
        return PlainAnswer(encode(found))

    @app.post(f"{API}/call")
    async def call(request: Request) -> Streamed:
        visitor = await access.visitor(request)
        wanted = await body_of(calls, visitor, request, CallBody)
        return Streamed(lambda receive, send: _send_call(calls, visitor, wanted, receive, send))


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


def _matches(text: str, words: list[str]) -> bool:
    return all(word in text for word in words)


def _entry(view: View, kind: Kind, name: str, item: Any) -> Entry:
    found = Entry(
        kind=kind, name=name, toolset=item.toolset, title=item.title or "",
        line=_line(item.description),
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


def _line(description: str | None) -> str:
    return (description or "").strip().partition("\n")[0][:_LINE_CHARS]


def _detail(view: View, actor: Actor, kind: Kind, name: str) -> Detail | None:
    """An entry with all that there is to say; None where the actor may not use it."""
    listed = view.tools.get(name) if kind == "tool" else None
    templates = {t.uri_template: t for _, t in view.templates if t.listed}
    item: Any = listed.descriptor if listed is not None else None
    if kind == "prompt":
        item = view.prompts.get(name)
    elif kind == "resource":
        item = view.resources.get(name) or templates.get(name)
    if item is None or not actor.holds(item.required_roles):
        return None
    shown: Any
    if listed is not None:
        shown = render.tool(listed)
    elif kind == "prompt":
        shown = render.prompt(name, item)
    else:
        shown = render.template(item) if name in templates else render.resource(item)
    return Detail(
        kind=kind,
        toolset=item.toolset,
        service=view.services.get(item.toolset, ""),
        own_name=item.name,
        required_roles=tuple(item.required_roles),
        held=listed.held if listed is not None else "",
        untrusted=item.untrusted,
        timeout_ms=item.timeout_ms if listed is not None else 0,
        shown=shown.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


async def _send_call(
    calls: HttpCalls, visitor: Visitor, wanted: CallBody, receive: Any, send: Any
) -> None:
    """Call a tool: events `trace`, `progress` and `log`, then `result` or `problem`."""
    stream = EventStream(send, INERT)
    trace: list[str] = []

    async def forward(event: ToolEvent) -> None:
        await stream.event(encode(known_event(event)), event.kind.encode())

    with DisconnectWatch(receive, stream):
        try:
            async with ForwardedEvents(forward) as on_event:
                served = await calls.call(
                    visitor.received, calls.everything, wanted.name, wanted.arguments,
                    on_event=on_event, on_trace=trace.append,
                )  # fmt: skip
        except (Fault, HttpError) as error:
            problem = msgspec.to_builtins(problem_of(error))
            await stream.event(
                encode({**problem, "trace_id": "".join(trace)}), b"problem", more=False
            )
            return
        reply = served.reply
        found = {
            "content": reply.content,
            "structured": None if reply.structured is None else msgspec.Raw(reply.structured),
            "meta": reply.meta,
            "trace_id": "".join(trace),
        }
        await stream.event(encode(found), b"result", more=False)

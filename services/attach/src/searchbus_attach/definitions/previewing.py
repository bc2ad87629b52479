"""What callers would see of a server by another view, beside what they see now."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from searchbus_contracts import ToolDescriptor
from searchbus_contracts.attach import ViewedTool, ViewPreview

from ..declare.servers import Server
from ..declare.views import DeclaredView
from .viewing import ViewedDefinition, shown_tools

_MAX_TOOLS = 500
_MAX_CHARS = 1000
_OF_DESCRIPTOR = {
    "name": "name", "title": "title", "description": "description", "annotations": "annotations",
    "arguments": "input_schema", "roles": "required_roles", "cost": "costly",
    "time limit": "timeout_ms", "output schema": "output_schema",
}  # fmt: skip


def preview(
    server: Server,
    now: DeclaredView,
    view: DeclaredView,
    tools: Iterable[ToolDescriptor],
    held: Collection[str] = (),
) -> ViewPreview:
    """A server's tools by a view, beside `now`, the one that counts; those that change come
    first."""
    known = {tool.name: tool for tool in tools}
    before = {
        one.name: one for one in shown_tools(server, now, known.values(), held).tools.values()
    }
    shown = shown_tools(server, view, known.values(), held)
    after = {one.name: one for one in shown.tools.values()}
    found = [_viewed(tool, before.get(name), after.get(name)) for name, tool in known.items()]
    found.sort(key=lambda one: not one.changes)
    return ViewPreview(
        tools=tuple(found[:_MAX_TOOLS]),
        more=max(0, len(found) - _MAX_TOOLS),
        changed=sum(bool(one.changes) for one in found),
        problems=shown.problems,
    )


def _viewed(
    tool: ToolDescriptor, before: ViewedDefinition | None, after: ViewedDefinition | None
) -> ViewedTool:
    if after is None:
        changes = ("not listed any more",) if before is not None else ()
        return ViewedTool(name=tool.name, changes=changes)
    found = after.descriptor
    hints: dict[str, Any] = msgspec.to_builtins(found.annotations) if found.annotations else {}
    return ViewedTool(
        name=tool.name,
        listed_as=found.qualified_name or found.name,
        title=found.title or "",
        description=found.description[:_MAX_CHARS],
        arguments=tuple(found.input_schema.get("properties") or ()),
        required_roles=found.required_roles,
        annotations=tuple(name for name, holds in hints.items() if holds is True),
        changes=("listed",) if before is None else tuple(_differences(before, after)),
    )


def _differences(before: ViewedDefinition, after: ViewedDefinition) -> Iterable[str]:
    """What of a tool differs, in a word or two each."""
    for what, key in _OF_DESCRIPTOR.items():
        if getattr(before.descriptor, key) != getattr(after.descriptor, key):
            yield what
    if before.arguments != after.arguments:
        yield "fixed arguments"
    if before.shape != after.shape:
        yield "results"
    if before.approve != after.approve:
        yield "approval of calls"

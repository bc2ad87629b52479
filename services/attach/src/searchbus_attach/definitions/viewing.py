"""A server's tools as its view shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from searchbus_contracts import ToolAnnotations, ToolDescriptor, convert
from searchbus_runtime.wording import nearest

from ..declare.servers import Server
from ..declare.views import ToolView, View
from .fixed import without_arguments
from .names import qualified_name
from .unmatched import unmatched

__all__ = ["Shown", "ShownTools", "shown_tools"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A tool as it is listed.

    Args:
        name: without the view.
        arguments: sent with each call.
    """

    descriptor: ToolDescriptor
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def may_repeat(self) -> bool:
        """Whether a call that may have been done can be sent again."""
        hints = self.descriptor.annotations
        return hints is not None and bool(hints.read_only_hint or hints.idempotent_hint)


@dataclass(frozen=True, slots=True)
class ShownTools:
    """The tools of a server that are listed.

    Args:
        tools: by the name under which they are listed.
        problems: of the view, for the operator.
    """

    tools: Mapping[str, Shown] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def listed_as(self) -> dict[str, str]:
        """Names on `/mcp` by the names without the view."""
        return {
            shown.name: shown.descriptor.qualified_name or shown.descriptor.name
            for shown in self.tools.values()
        }


def shown_tools(
    server: Server, view: View, tools: Iterable[ToolDescriptor], held: Collection[str] = ()
) -> ShownTools:
    """Apply a view to the tools that may be listed.

    Args:
        held: names of further tools, which wait for approval: the view is for them, too.
    """
    found: dict[str, Shown] = {}
    problems: list[str] = []
    known = {tool.name: tool for tool in tools}
    # A tool that keeps its name has it before one that is renamed to it.
    renamed = {name for name, own in view.tools.items() if own.name not in ("", name)}
    for name, tool in sorted(known.items(), key=lambda item: item[0] in renamed):
        if not view.allows(name):
            continue
        shown = _shown(server, view, tool)
        if shown.descriptor.name in found:
            problems.append(
                f"{name} is not listed: another tool has the name {shown.descriptor.name}."
            )
            continue
        found[shown.descriptor.name] = shown
        properties = tool.input_schema.get("properties") or {}
        problems += [
            f"{name} has no argument {argument}.{nearest(argument, properties)}"
            for argument in shown.arguments
            if argument not in properties
        ]
    if known:
        names = list(dict.fromkeys((*known, *held)))
        problems += unmatched(view, names)
        problems += [
            f"There is no tool {name}.{nearest(name, names)}"
            for name in view.tools
            if name not in names
        ]
    return ShownTools(found, tuple(problems))


def _shown(server: Server, view: View, tool: ToolDescriptor) -> Shown:
    own = view.tools.get(tool.name, ToolView())
    name = own.name or tool.name
    timeout_s = own.timeout_s or view.timeout_s or server.call_timeout_s
    descriptor = msgspec.structs.replace(
        tool,
        name=name,
        qualified_name=qualified_name(server.name, name),
        title=own.title or tool.title,
        description=own.description or tool.description,
        annotations=_annotations(tool.annotations, own.annotations),
        input_schema=without_arguments(tool.input_schema, own.arguments),
        required_roles=tuple(
            dict.fromkeys((*server.required_roles, *view.required_roles, *own.required_roles))
        ),
        costly=view.costly if own.costly is None else own.costly,
        timeout_ms=int(timeout_s * 1000),
    )
    return Shown(descriptor, tool.name, own.arguments)


def _annotations(
    found: ToolAnnotations | None, own: ToolAnnotations | None
) -> ToolAnnotations | None:
    if own is None:
        return found
    return convert(
        {**msgspec.to_builtins(found or ToolAnnotations()), **msgspec.to_builtins(own)},
        ToolAnnotations,
    )

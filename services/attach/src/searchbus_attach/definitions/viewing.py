"""A server's tools as its view shows them, and what another view would change."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from searchbus_contracts import ToolAnnotations, ToolDescriptor, convert
from searchbus_contracts.attach import ViewedTool, ViewPreview
from searchbus_contracts.schemas import levels
from searchbus_runtime.wording import nearest

from ..declare.servers import Server
from ..declare.views import DeclaredView, Selection, Shape, ToolView
from .schemas import chars_of
from .text import qualified_name


@dataclass(frozen=True, slots=True)
class ViewedDefinition:
    """A tool as it is listed.

    Args:
        name: without the view.
        arguments: sent with each call.
        shape: of its results.
        approve: whether a person has to approve each call.
    """

    descriptor: ToolDescriptor
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)
    approve: bool = False


@dataclass(frozen=True, slots=True)
class ShownTools:
    """The tools of a server that are listed, by their names there; what of the view has no
    effect."""

    tools: Mapping[str, ViewedDefinition] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def listed_as(self) -> dict[str, str]:
        """Names on `/mcp` by the names without the view."""
        return {
            shown.name: shown.descriptor.qualified_name or shown.descriptor.name
            for shown in self.tools.values()
        }


def shown_tools(
    server: Server, view: DeclaredView, tools: Iterable[ToolDescriptor], held: Collection[str] = ()
) -> ShownTools:
    """Apply a view to the tools that may be listed, and to those that are held for approval."""
    found: dict[str, ViewedDefinition] = {}
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
        problems += pattern_problems(view, names)
        problems += [
            f"There is no tool {name}.{nearest(name, names)}"
            for name in view.tools
            if name not in names
        ]
    return ShownTools(found, tuple(problems))


def _shown(server: Server, view: DeclaredView, tool: ToolDescriptor) -> ViewedDefinition:
    own = view.tools.get(tool.name, ToolView())
    name = own.name or tool.name
    shape = view.results if own.results is None else own.results
    timeout_s = own.timeout_s or view.timeout_s or server.call_timeout_s
    descriptor = msgspec.structs.replace(
        tool,
        name=name,
        qualified_name=qualified_name(server.name, name),
        title=own.title or tool.title,
        description=own.description or tool.description,
        annotations=_annotations(tool.annotations, own.annotations),
        input_schema=without_arguments(tool.input_schema, own.arguments),
        # What is kept need not fit it any more.
        output_schema=tool.output_schema if shape == Shape() else None,
        required_roles=tuple(
            dict.fromkeys((*server.required_roles, *view.required_roles, *own.required_roles))
        ),
        costly=view.costly if own.costly is None else own.costly,
        timeout_ms=int(timeout_s * 1000),
    )
    return ViewedDefinition(descriptor, tool.name, own.arguments, shape, own.approve)


def _annotations(
    found: ToolAnnotations | None, own: ToolAnnotations | None
) -> ToolAnnotations | None:
    if own is None:
        return found
    return convert(
        {**msgspec.to_builtins(found or ToolAnnotations()), **msgspec.to_builtins(own)},
        ToolAnnotations,
    )


_PREVIEWED_TOOLS = 500
_PREVIEWED_CHARS = 1000
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
        tools=tuple(found[:_PREVIEWED_TOOLS]),
        more=max(0, len(found) - _PREVIEWED_TOOLS),
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
        description=found.description[:_PREVIEWED_CHARS],
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


_COMBINED = ("allOf", "anyOf", "oneOf")
_CONDITION = ("if", "then", "else")
_DEFINITIONS = ("$defs", "definitions")
_MAX_CHARS = 2**20
"""Limit of names and texts; four times what a whole tool of a server has."""


def without_arguments(schema: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema without these arguments.

    Args:
        schema: as schemas.py makes it; its references have an end.

    Returns:
        One that says nothing of the arguments where it would be large: a definition is repeated
        wherever it is referred to.
    """
    if not names:
        return schema
    hiding = _Hiding(schema, names)
    found: dict[str, Any] = hiding.apply(schema)
    if _is_large(found):
        return {"type": "object"}
    for table, name in hiding.copied:
        rest = {key: part for key, part in found[table].items() if key != name}
        # Others may refer to it.
        if json.dumps(f"#/{table}/{name}") not in json.dumps({**found, table: rest}):
            found[table] = rest
    return found


def _is_large(schema: dict[str, Any]) -> bool:
    """Whether it has more text, parts that are there twice counted twice."""
    chars = 0
    for level in levels(schema):
        chars += len(level) + chars_of(level)
        if chars > _MAX_CHARS:
            return True
    return False


class _Hiding:
    """Hides arguments.

    Attributes:
        copied: definitions that are now part of what referred to them, the outer ones first.
    """

    def __init__(self, root: Mapping[str, Any], names: Collection[str]) -> None:
        self._root = root
        self._names = names
        self.copied: dict[tuple[str, str], None] = {}

    def apply(self, part: Any) -> Any:
        """A part of the schema that is about the arguments as a whole."""
        if not isinstance(part, dict):
            return part
        found = self._with_definition(part)
        for key in ("properties", "dependentSchemas", "dependentRequired"):
            if isinstance(found.get(key), dict):
                found[key] = {n: v for n, v in found[key].items() if n not in self._names}
        if isinstance(found.get("required"), list):
            found["required"] = self._others(found["required"])
        if "dependentRequired" in found:
            needed = found["dependentRequired"].items()
            found["dependentRequired"] = {name: self._others(more) for name, more in needed}
        if "dependentSchemas" in found:
            schemas = found["dependentSchemas"].items()
            found["dependentSchemas"] = {name: self.apply(more) for name, more in schemas}
        for key in _COMBINED:
            if isinstance(found.get(key), list):
                found[key] = [self.apply(one) for one in found[key]]
        # Once: conditions of conditions would double the work at each level.
        condition = self.apply(found.get("if"))
        looks_at_them = condition != found.get("if")
        for key in _CONDITION:
            if key in found:
                value = found.pop(key)
                if not looks_at_them:
                    found[key] = condition if key == "if" else self.apply(value)
        return found

    def _others(self, names: list[str]) -> list[str]:
        return [name for name in names if name not in self._names]

    def _with_definition(self, part: dict[str, Any]) -> dict[str, Any]:
        """A part with the definition that it refers to, in place of the reference."""
        found = dict(part)
        start, _, path = str(found.get("$ref", "")).partition("/")
        table, _, name = path.partition("/")
        definitions = self._root.get(table) if start == "#" and table in _DEFINITIONS else None
        if isinstance(definitions, dict) and name in definitions:
            del found["$ref"]
            found["allOf"] = [*found.get("allOf", ()), definitions[name]]
            self.copied[table, name] = None
        return found


_WILDCARD = re.compile(r"[*?\[]")


def pattern_problems(
    view: DeclaredView | Selection,
    tools: Collection[str],
    *,
    servers: Collection[str] = (),
    unknown: Collection[str] = (),
) -> tuple[str, ...]:
    """A sentence for each pattern that matches none of the tools, named as on `/mcp` with their
    servers, nor may match a tool of a server whose list is unknown."""
    known = [*tools, *(qualified_name(server, "*") for server in servers)]
    beginnings = [qualified_name(server, "") for server in unknown]
    return tuple(
        f"{pattern!r} of '{key}' matches no tool.{nearest(pattern, known)}"
        for key, patterns in (("allow", view.allow), ("deny", view.deny))
        for pattern in patterns
        if not any(fnmatchcase(tool, pattern) for tool in tools)
        and not any(_may_match(pattern, beginning) for beginning in beginnings)
    )


def _may_match(pattern: str, beginning: str) -> bool:
    """Whether a pattern may match a name that begins so."""
    fixed = _WILDCARD.split(pattern, maxsplit=1)[0]
    return beginning.startswith(fixed) or fixed.startswith(beginning)

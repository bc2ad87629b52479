"""What one endpoint offers at one moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import jsonschema_rs

from searchbus_contracts import (
    Actor,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    ToolDescriptor,
)
from searchbus_contracts.resources import UriTemplate

from .client_schema import client_schema, with_nulls
from .repair import Repair

K = TypeVar("K")
V = TypeVar("V")
LAZY = "lazy"
"""The toolset of the edge's own tools: find_tools and call_tool."""
PATTERN_OPTIONS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)
"""Limit for one text, a fifth of a millisecond; with the usual million, one call with many texts
could hold the loop for minutes. Only patterns with references to groups or looks around have steps
back."""


def validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """The validator of a tool's arguments; it fetches nothing. Raises ValueError (bad schema)."""
    return jsonschema_rs.Draft202012Validator(schema, offline=True, pattern_options=PATTERN_OPTIONS)


@dataclass(frozen=True)
class ListedTool:
    """A tool under the name that an endpoint lists; `held` says why calls are refused."""

    name: str
    descriptor: ToolDescriptor
    service: str
    held: str = ""

    def is_of(self, name: str, descriptor: ToolDescriptor, service: str, held: str) -> bool:
        """Whether it was made of these, with this very descriptor."""
        return (
            self.descriptor is descriptor
            and self.name == name
            and self.service == service
            and self.held == held
        )

    @cached_property
    def required_roles(self) -> tuple[str, ...]:
        """A caller needs all of these to see and to call it."""
        return self.descriptor.required_roles

    @cached_property
    def own(self) -> bool:
        """Whether the edge serves it itself."""
        return self.descriptor.toolset == LAZY

    @cached_property
    def passes_on(self) -> bool:
        """Whether it is call_tool: the tool that its argument `name` names does the work."""
        return self.own and self.descriptor.name == "call_tool"

    @cached_property
    def span_name(self) -> str:
        """Name of the span of a call."""
        return f"tools/call {self.name}"

    @cached_property
    def span_attributes(self) -> dict[str, str]:
        """Attributes of the span of a call."""
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.name,
            "searchbus.toolset": self.descriptor.toolset,
        }

    @cached_property
    def validator(self) -> jsonschema_rs.Validator:
        """Checks arguments; made at the first call, since it takes 5 KiB."""
        return validator(with_nulls(self.descriptor.input_schema))

    @cached_property
    def repair(self) -> Repair:
        """Repairs arguments before they are validated."""
        return Repair(with_nulls(self.descriptor.input_schema))

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The schema of its arguments as clients read it."""
        return client_schema(self.descriptor.input_schema)

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of its results as clients read it."""
        found = self.descriptor.output_schema
        return None if found is None else client_schema(found)

    @cached_property
    def mirrors_arguments(self) -> bool:
        """Whether clients of 2026-07-28 repeat arguments in `Mcp-Param-*` headers (SEP-2243)."""
        return '"x-mcp-header"' in json.dumps(self.descriptor.input_schema, default=str)


@dataclass(frozen=True)
class View:
    """Tools, prompts and resources of an endpoint, in a fixed order.

    Args:
        version: the directory's generation, whether search was available, the pins' generation.
        toolset: None for `/mcp`.
        joined: the toolsets of an endpoint that joins some of them.
        services: the service of each toolset, in naming order.
        tool_of: tools by (toolset, own name).
    """

    version: tuple[int, bool, int]
    toolset: str | None = None
    joined: tuple[str, ...] = ()
    tools: dict[str, ListedTool] = field(default_factory=dict)
    prompts: dict[str, PromptDescriptor] = field(default_factory=dict)
    resources: dict[str, ResourceDescriptor] = field(default_factory=dict)
    templates: tuple[tuple[UriTemplate, ResourceTemplate], ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)
    tool_of: dict[tuple[str, str], ListedTool] = field(default_factory=dict)

    @property
    def members(self) -> tuple[str, ...]:
        """The toolsets that it has items of; empty for all."""
        return self.joined or ((self.toolset,) if self.toolset else ())

    def part(self, name: str, toolsets: tuple[str, ...]) -> View:
        """The view of an endpoint that joins these toolsets, with the names of this one."""
        chosen = frozenset(toolsets)
        return replace(
            self,
            toolset=name,
            joined=toolsets,
            tools={n: t for n, t in self.tools.items() if t.descriptor.toolset in chosen},
            prompts={n: p for n, p in self.prompts.items() if p.toolset in chosen},
            resources={uri: r for uri, r in self.resources.items() if r.toolset in chosen},
            templates=tuple(t for t in self.templates if t[1].toolset in chosen),
            services={t: s for t, s in self.services.items() if t in chosen},
            tool_of={key: t for key, t in self.tool_of.items() if key[0] in chosen},
        )

    def access(self, actor: Actor) -> tuple[bool, ...]:
        """Which role groups of the lists the actor holds: lists are equal just where these are."""
        return tuple(map(actor.holds, self._role_groups))

    def prepare(self) -> None:
        """Look through all items for what the first request would look for; use a thread."""
        _ = self.max_request_bytes, self._role_groups

    @cached_property
    def max_request_bytes(self) -> int:
        """The largest request that a tool declares; 0 where none does."""
        return max((t.descriptor.max_request_bytes for t in self.tools.values()), default=0)

    @cached_property
    def _role_groups(self) -> tuple[tuple[str, ...], ...]:
        items: list[Any] = [tool.descriptor for tool in self.tools.values()]
        items += [*self.prompts.values(), *(t for _, t in self.templates if t.listed)]
        groups = dict.fromkeys(tuple(item.required_roles) for item in items)
        return tuple(group for group in groups if group)

    def prompt_tools(self, actor: Actor) -> list[str]:
        """Names of the tools that prompts name to this actor."""
        tools = [tool for tool in self.tools.values() if tool.descriptor.in_prompts]
        return [tool.name for tool in tools if actor.holds(tool.required_roles)]

    def toolsets_with(
        self, actor: Actor, chosen: Callable[[ResourceTemplate], bool]
    ) -> list[tuple[str, str]]:
        """(toolset, service) of the chosen resources that the actor may read, in naming order."""
        names = dict.fromkeys(
            template.toolset
            for _, template in self.templates
            if chosen(template) and actor.holds(template.required_roles)
        )
        return [(name, self.services[name]) for name in names]


class MadeOf(Generic[K, V]):
    """What was made of one version of a view, until the next version or `most` items."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._version: tuple[int, bool, int] | None = None
        self._made: dict[K, V] = {}

    def version(self, view: View) -> dict[K, V]:
        """The items of the view's version; empty where it is another one than before."""
        if self._version != view.version or len(self._made) > self._most:
            self._version, self._made = view.version, {}
        return self._made

"""What one endpoint offers at one moment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jsonschema_rs

from searchbus_contracts import (
    Actor,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    ToolDescriptor,
)

from .visible import visible

__all__ = ["ListedTool", "View"]


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool under the name that an endpoint lists."""

    name: str
    descriptor: ToolDescriptor
    service: str
    validator: jsonschema_rs.Validator


@dataclass(frozen=True, slots=True)
class View:
    """Tools, prompts and resources of an endpoint, in a fixed order.

    Args:
        version: the directory's generation, and whether search was available.
        toolset: None for `/mcp`.
        services: the service of each toolset, in naming order.
        tool_of: tools by (toolset, own name).
    """

    version: tuple[int, bool]
    toolset: str | None = None
    tools: dict[str, ListedTool] = field(default_factory=dict)
    prompts: dict[str, PromptDescriptor] = field(default_factory=dict)
    resources: dict[str, ResourceDescriptor] = field(default_factory=dict)
    templates: tuple[tuple[re.Pattern[str], ResourceTemplate], ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)
    tool_of: dict[tuple[str, str], ListedTool] = field(default_factory=dict)

    def listed_toolsets(self, actor: Actor) -> list[tuple[str, str]]:
        """(toolset, service) of resources that a worker lists page by page, in naming order."""
        return self._toolsets(actor, lambda template: template.lists)

    def searched_toolsets(self, actor: Actor) -> list[tuple[str, str]]:
        """(toolset, service) of resources that a worker finds by content, in naming order."""
        return self._toolsets(actor, lambda template: template.searches)

    def _toolsets(
        self, actor: Actor, chosen: Callable[[ResourceTemplate], bool]
    ) -> list[tuple[str, str]]:
        names = dict.fromkeys(
            template.toolset
            for _, template in self.templates
            if chosen(template) and visible(actor, template)
        )
        return [(name, self.services[name]) for name in names]

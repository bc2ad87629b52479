"""What one endpoint offers: tools under their listed names, prompts, resources; by page.

On `/mcp` a name belongs to the first toolset in the configured order; a later holder is listed as
`<toolset>_<name>`. On `/mcp/<toolset>` every name is the toolset's own. Views are immutable and
rebuilt when the directory's generation changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import jsonschema_rs

from searchbus_bus import Directory
from searchbus_contracts import (
    Actor,
    Catalog,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    ToolDescriptor,
    is_token,
)

__all__ = ["BadCursor", "Catalogue", "ListedTool", "View", "page_of", "visible"]

log = logging.getLogger("searchbus.edge")


class BadCursor(ValueError):
    """A cursor that this server did not give."""


class _HasRoles(Protocol):
    @property
    def required_roles(self) -> tuple[str, ...]: ...


T = TypeVar("T")


def visible(actor: Actor, descriptor: _HasRoles) -> bool:
    """The one rule of access: list, search, call, read and get all ask it."""
    return actor.holds(descriptor.required_roles)


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool under the name that an endpoint lists."""

    name: str
    descriptor: ToolDescriptor
    service: str
    validator: jsonschema_rs.Validator


@dataclass(frozen=True, slots=True)
class View:
    """What an endpoint offers at one moment, in a fixed order."""

    generation: int
    tools: dict[str, ListedTool] = field(default_factory=dict)
    prompts: dict[str, PromptDescriptor] = field(default_factory=dict)
    resources: dict[str, ResourceDescriptor] = field(default_factory=dict)
    templates: tuple[tuple[re.Pattern[str], ResourceTemplate], ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)


class Catalogue:
    """Views of the directory, one an endpoint, cached for its generation.

    Args:
        order: toolsets in the order in which they get names on `/mcp`.
    """

    def __init__(self, directory: Directory, order: Sequence[str]) -> None:
        self._directory = directory
        self._order = tuple(order)
        self._views: dict[str | None, View] = {}
        self._validators: dict[int, tuple[ToolDescriptor, jsonschema_rs.Validator]] = {}

    @property
    def toolsets(self) -> list[str]:
        """Every toolset there is, in naming order."""
        names = {t for catalog in self._directory.catalogs for t in catalog.toolsets}
        return sorted(names, key=self._rank)

    def view(self, toolset: str | None) -> View:
        """What `/mcp` (None) or `/mcp/<toolset>` offers now."""
        view = self._views.get(toolset)
        if view is None or view.generation != self._directory.generation:
            view = self._views[toolset] = self._build(toolset)
        return view

    def _rank(self, toolset: str) -> tuple[int, str]:
        try:
            return self._order.index(toolset), ""
        except ValueError:
            return len(self._order), toolset

    def _build(self, toolset: str | None) -> View:
        owned = [
            catalog
            for catalog in self._directory.catalogs
            if toolset is None or toolset in catalog.toolsets
        ]
        view = View(
            generation=self._directory.generation,
            services={t: s for t in self.toolsets if (s := self._directory.owner(t))},
        )
        for tool, service in self._of(owned, toolset, lambda catalog: catalog.tools):
            listed = self._listed_name(view.tools, tool.toolset, tool.name)
            validator = self._validator(tool)
            if listed is not None and validator is not None:
                view.tools[listed] = ListedTool(listed, tool, service, validator)
        for prompt, _ in self._of(owned, toolset, lambda catalog: catalog.prompts):
            listed = self._listed_name(view.prompts, prompt.toolset, prompt.name)
            if listed is not None:
                view.prompts[listed] = prompt
        for resource, _ in self._of(owned, toolset, lambda catalog: catalog.resources):
            view.resources.setdefault(resource.uri, resource)
        templates = tuple(
            (template_pattern(template.uri_template), template)
            for template, _ in self._of(owned, toolset, lambda c: c.resource_templates)
        )
        return View(
            view.generation, view.tools, view.prompts, view.resources, templates, view.services
        )

    def _of(
        self,
        catalogs: Iterable[Catalog],
        toolset: str | None,
        items: Callable[[Catalog], Iterable[T]],
    ) -> list[tuple[T, str]]:
        """Items of the toolsets that their service owns, by naming order, then as declared."""
        found: list[tuple[Any, str]] = [
            (item, catalog.service)
            for catalog in catalogs
            for item in items(catalog)
            if toolset in (None, item.toolset)  # type: ignore[attr-defined]
            and self._directory.owner(item.toolset) == catalog.service  # type: ignore[attr-defined]
        ]
        return sorted(found, key=lambda pair: self._rank(pair[0].toolset))

    def _listed_name(self, taken: Mapping[str, Any], toolset: str, name: str) -> str | None:
        for candidate in (name, f"{toolset}_{name}"):
            if candidate not in taken and is_token(candidate):
                return candidate
        log.warning("%s of %s is left out: its name is taken", name, toolset)
        return None

    def _validator(self, tool: ToolDescriptor) -> jsonschema_rs.Validator | None:
        known = self._validators.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        try:
            validator = jsonschema_rs.Draft202012Validator(tool.input_schema)
        except (ValueError, RecursionError) as error:
            log.warning("%s of %s is left out: bad schema: %s", tool.name, tool.toolset, error)
            return None
        self._validators[id(tool)] = (tool, validator)
        return validator


def template_pattern(template: str) -> re.Pattern[str]:
    """RFC 6570 level 1 as a pattern: each `{name}` matches one path segment."""
    parts = re.split(r"\{[A-Za-z0-9_]+\}", template)
    return re.compile("([^/]+)".join(re.escape(part) for part in parts))


def page_of(
    items: Sequence[T], cursor: str | None, size: int, *, kind: str
) -> tuple[list[T], str | None]:
    """A page, and the cursor of the next one.

    A cursor is an offset with a check, so that a made-up one is told from one of ours; a list that
    changed meanwhile goes on at the same place.

    Raises:
        BadCursor: it is none of ours, or of another list.
    """
    start = 0 if cursor is None else _open_cursor(cursor, kind)
    page = list(items[start : start + size])
    following = start + size
    return page, (_seal_cursor(following, kind) if following < len(items) else None)


def _seal_cursor(offset: int, kind: str) -> str:
    check = hashlib.sha256(f"searchbus/{kind}/{offset}".encode()).hexdigest()[:12]
    return base64.urlsafe_b64encode(f"{offset}.{check}".encode()).decode().rstrip("=")


def _open_cursor(cursor: str, kind: str) -> int:
    try:
        text = base64.urlsafe_b64decode(cursor[:64] + "=" * (-len(cursor) % 4)).decode("ascii")
        offset = int(text.partition(".")[0])
    except (ValueError, binascii.Error):
        raise BadCursor(cursor) from None
    if offset < 0 or _seal_cursor(offset, kind) != cursor:
        raise BadCursor(cursor)
    return offset

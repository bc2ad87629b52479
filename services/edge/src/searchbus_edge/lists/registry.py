"""The registry: the merged view of all workers' catalogs.

On `/mcp` a name belongs to the first toolset in the configured order; a later toolset's tool is
listed as `<toolset>_<name>`. On `/mcp/<toolset>` every name is the toolset's own. Views are
immutable and rebuilt when the directory's generation changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from searchbus_bus import Directory
from searchbus_contracts import Catalog, ToolDescriptor, is_token
from searchbus_contracts.resources import template_pattern
from searchbus_contracts.schemas import foreign_dialect

from .pinning import Pinning
from .view import ListedTool, View, validator

__all__ = ["Registry"]

log = logging.getLogger("searchbus.edge")
T = TypeVar("T")


class Registry:
    """Builds one view per endpoint and caches it until the directory changes.

    Args:
        order: toolsets in the order in which they get names on `/mcp`.
        own: the edge's own tools, all of one toolset; listed last, and only while `own_offered()`.
        pinned: names on `/mcp` of tools that the endpoint of the own toolset also lists.
        pinning: holds definitions that changed; None lists whatever services describe.
    """

    def __init__(
        self,
        directory: Directory,
        order: Sequence[str],
        *,
        own: Sequence[ToolDescriptor] = (),
        own_offered: Callable[[], bool] = lambda: True,
        pinned: Sequence[str] = (),
        pinning: Pinning | None = None,
    ) -> None:
        self._directory = directory
        self._order = tuple(order)
        self._own = {tool.toolset: tuple(own) for tool in own}
        self._own_offered = own_offered
        self._pinned = tuple(pinned)
        self._pinning = pinning
        self._views: dict[str | None, View] = {}
        self._valid: dict[int, ToolDescriptor] = {}

    @property
    def toolsets(self) -> list[str]:
        """All toolsets, in naming order."""
        names = {t for catalog in self._directory.catalogs for t in catalog.toolsets}
        own = list(self._own) if self._own_offered() else []
        return [*sorted(names - set(self._own), key=self._rank), *own]

    @property
    def unseen(self) -> list[str]:
        """Services that belong here and were not seen since the edge started."""
        return [a.service for a in self._directory.absences if a.since_s is None]

    def offers(self, toolset: str) -> bool:
        """Whether there is such a toolset now."""
        if toolset in self._own:
            return self._own_offered()
        return self._directory.owner(toolset) is not None

    def view(self, toolset: str | None) -> View:
        """What `/mcp` (None) or `/mcp/<toolset>` offers now."""
        pins = self._pinning.generation if self._pinning is not None else 0
        version = (self._directory.generation, self._own_offered(), pins)
        view = self._views.get(toolset)
        if view is None or view.version != version:
            view = self._views[toolset] = self._build(toolset, version)
        return view

    def _rank(self, toolset: str) -> tuple[int, str]:
        try:
            return self._order.index(toolset), ""
        except ValueError:
            return len(self._order), toolset

    def _build(self, toolset: str | None, version: tuple[int, bool, int]) -> View:
        owned = [
            catalog
            for catalog in self._directory.catalogs
            if toolset is None or toolset in catalog.toolsets
        ]
        view = View(
            version,
            toolset,
            services={t: s for t in self.toolsets if (s := self._directory.owner(t))},
        )
        before = self._views[toolset].tool_of if toolset in self._views else {}
        held: dict[tuple[str, str], str] = {}
        for tool, service in self._of(owned, toolset, lambda c: self._approved(c, held)):
            listed = self._listed_name(view.tools, tool.toolset, tool.name)
            if listed is not None and self._has_valid_schema(tool):
                key = (tool.toolset, tool.name)
                found = before.get(key)
                reason = held.get(key, "")
                # An unchanged tool keeps its compiled validator.
                if found is None or not found.is_of(listed, tool, service, reason):
                    found = ListedTool(listed, tool, service, reason)
                view.tools[listed] = view.tool_of[key] = found
        self._add_own(view)
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
        if toolset is None:  # it has every tool: what is gone is forgotten
            self._valid = {id(tool.descriptor): tool.descriptor for tool in view.tools.values()}
            for gone in [t for t in self._views if t is not None and not self.offers(t)]:
                del self._views[gone]
        return replace(view, templates=templates)

    def _add_own(self, view: View) -> None:
        """Add the edge's own tools to `/mcp` and, with the pinned tools, to their own endpoint."""
        own = [tool for tools in self._own.values() for tool in tools]
        if not view.version[1] or (view.toolset is not None and view.toolset not in self._own):
            return
        for tool in own:
            listed = self._listed_name(view.tools, tool.toolset, tool.name)
            if listed is not None and self._has_valid_schema(tool):
                found = ListedTool(listed, tool, "")
                view.tools[listed] = view.tool_of[tool.toolset, tool.name] = found
        if view.toolset is not None:
            everything = self.view(None).tools
            for name in self._pinned:
                if name in everything:
                    view.tools.setdefault(name, everything[name])

    def _approved(
        self, catalog: Catalog, held: dict[tuple[str, str], str]
    ) -> Iterable[ToolDescriptor]:
        """The tools that may be listed; `held` receives why some may not be called."""
        if self._pinning is None:
            return catalog.tools
        approved: list[ToolDescriptor] = []
        for toolset in catalog.toolsets:
            if self._directory.owner(toolset) != catalog.service:
                continue
            tools = catalog.tools_of(toolset)
            reviewed = self._pinning.review(toolset, catalog.service, tools)
            approved += reviewed.tools
            for name, found in reviewed.held.items():
                held[toolset, name] = "; ".join(found.reasons)
        return approved

    def _of(
        self,
        catalogs: Iterable[Catalog],
        toolset: str | None,
        items: Callable[[Catalog], Iterable[T]],
    ) -> list[tuple[T, str]]:
        """Items of toolsets that their service owns, in naming order, then as declared."""
        found: dict[str, list[tuple[Any, str]]] = {}
        for catalog in catalogs:
            # Once a toolset, not once an item: a catalogue may have tens of thousands.
            owned = {
                name
                for name in catalog.toolsets
                if toolset in (None, name)
                and name not in self._own
                and self._directory.owner(name) == catalog.service
            }
            for item in items(catalog):
                if item.toolset in owned:  # type: ignore[attr-defined]
                    found.setdefault(item.toolset, []).append((item, catalog.service))  # type: ignore[attr-defined]
        return [pair for name in sorted(found, key=self._rank) for pair in found[name]]

    def _listed_name(self, taken: Mapping[str, Any], toolset: str, name: str) -> str | None:
        if name not in taken:
            return name
        longer = f"{toolset}_{name}"
        if longer not in taken and is_token(longer):
            return longer
        log.warning("%s of toolset %s is not listed: its name is taken", name, toolset)
        return None

    def _has_valid_schema(self, tool: ToolDescriptor) -> bool:
        if self._valid.get(id(tool)) is tool:
            return True
        try:
            validator(tool.input_schema)
        except (ValueError, RecursionError) as error:
            log.warning(
                "%s of toolset %s is not listed: invalid input schema: %s",
                tool.name,
                tool.toolset,
                error,
            )
            return False
        dialect = foreign_dialect(tool.input_schema)
        if dialect is not None:
            log.warning(
                "the schema of %s of toolset %s is of dialect %s and read as 2020-12",
                tool.name, tool.toolset, dialect,
            )  # fmt: skip
        self._valid[id(tool)] = tool
        return True

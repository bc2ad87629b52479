"""The registry: what each toolset offers, checked, and the merged view of all of them.

On `/mcp` a name belongs to the first toolset in the configured order; a later toolset's tool is
listed as `<toolset>_<name>`. A tool with a qualified name has that one there. On `/mcp/<toolset>`
every name is the toolset's own; an endpoint that joins toolsets has the names of `/mcp`. Views are
immutable and rebuilt when the directory's generation changes.

Checking compiles every schema, which takes a second for fifty thousand tools. It runs in a thread
before the directory publishes them, and only for toolsets whose catalogue, owner or pins changed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from searchbus_bus import Directory
from searchbus_bus.catalog.services import Listing
from searchbus_contracts import (
    Catalog,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    ToolDescriptor,
    is_token,
)
from searchbus_contracts.resources import UriTemplate
from searchbus_contracts.schemas import foreign_dialect
from searchbus_runtime.pins import Reviewed

from .client_schema import with_nulls
from .pinning import Pinning
from .view import ListedTool, View, validator

log = logging.getLogger("searchbus.edge")

Review = Callable[[str, str, Sequence[ToolDescriptor]], Reviewed]
"""Takes a toolset, its service and its tools; says which may be listed, and which are held."""
_KINDS = ("tools", "prompts", "resources", "resource_templates")


@dataclass(frozen=True, slots=True)
class Offer:
    """What one toolset offers.

    Args:
        catalog: that it was made of.
        tools: by their own names, in the order of the catalogue.
        tool_of: the same by (toolset, own name).
        qualified: whether one of them has another name beside tools of other toolsets, or is not
            listed there.
    """

    service: str
    catalog: Catalog
    tools: Mapping[str, ListedTool]
    tool_of: Mapping[tuple[str, str], ListedTool]
    prompts: tuple[PromptDescriptor, ...]
    resources: tuple[ResourceDescriptor, ...]
    templates: tuple[tuple[UriTemplate, ResourceTemplate], ...]
    qualified: bool


@dataclass(frozen=True, slots=True)
class Offers:
    """What all toolsets offer, by toolset, under the generation of pins that was applied."""

    listing: Listing = field(default_factory=Listing)
    pins: int = 0
    of: Mapping[str, Offer] = field(default_factory=dict)

    def following(
        self, listing: Listing, pins: int, review: Review, *, left_out: Collection[str]
    ) -> Offers:
        """The offers of another listing, but `left_out`; what did not change stays one object."""
        owned: dict[str, list[str]] = defaultdict(list)
        for toolset, service in listing.owners.items():
            if toolset not in left_out:
                owned[service].append(toolset)
        found: dict[str, Offer] = {}
        for catalog in listing.catalogs:
            before = {t: self.of.get(t) for t in owned[catalog.service]}
            kept = {t: offer for t, offer in before.items() if offer and offer.catalog is catalog}
            if pins == self.pins and len(kept) == len(before):
                found |= kept
                continue
            items = _by_toolset(catalog)
            for toolset, known in before.items():
                reviewed = review(toolset, catalog.service, items[toolset]["tools"])
                found[toolset] = _offer(toolset, catalog, items[toolset], reviewed, known)
        return Offers(listing, pins, found)


def _by_toolset(catalog: Catalog) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {kind: [] for kind in _KINDS})
    for kind in _KINDS:
        for item in getattr(catalog, kind):
            found[item.toolset][kind].append(item)
    return found


def _offer(
    toolset: str,
    catalog: Catalog,
    items: Mapping[str, Sequence[Any]],
    reviewed: Reviewed,
    before: Offer | None,
) -> Offer:
    known = before.tools if before is not None else {}
    matchers = {t.uri_template: m for m, t in before.templates} if before is not None else {}
    tools: dict[str, ListedTool] = {}
    for tool in reviewed.tools:
        held = reviewed.held.get(tool.name)
        reason = "; ".join(held.reasons) if held is not None else ""
        listed = known.get(tool.name)
        if listed is None or not listed.is_of(tool.name, tool, catalog.service, reason):
            if (listed is None or listed.descriptor is not tool) and not has_valid_schema(tool):
                continue
            listed = ListedTool(tool.name, tool, catalog.service, reason)
        if tools.setdefault(tool.name, listed) is not listed:
            log.warning("%s of toolset %s is listed once: it is there twice", tool.name, toolset)
    return Offer(
        service=catalog.service,
        catalog=catalog,
        tools=tools,
        tool_of={(toolset, name): tool for name, tool in tools.items()},
        prompts=tuple(items["prompts"]),
        resources=tuple(items["resources"]),
        templates=tuple(
            (matchers.get(t.uri_template) or UriTemplate(t.uri_template), t)
            for t in items["resource_templates"]
        ),
        qualified=any(t.descriptor.qualified_name or t.descriptor.aside for t in tools.values()),
    )


def has_valid_schema(tool: ToolDescriptor) -> bool:
    """Whether arguments can be validated; logs why not, and which schema is read as 2020-12."""
    try:
        validator(with_nulls(tool.input_schema))
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
    return True


class Registry:
    """Builds one view per endpoint and caches it until the directory changes.

    Args:
        order: toolsets in the order in which they get names on `/mcp`.
        own: the edge's own tools, all of one toolset; listed last, and only while `own_offered()`.
        pinned: names on `/mcp` of tools that the endpoint of the own toolset also lists.
        pinning: holds definitions that changed; None lists whatever services describe.
        joined: toolsets by the name of the endpoint that joins them.
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
        joined: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._directory = directory
        self._order = tuple(order)
        self._own_toolsets = dict.fromkeys(tool.toolset for tool in own)
        self._own = tuple(tool for tool in own if has_valid_schema(tool))
        self._own_offered = own_offered
        self._pinned = tuple(pinned)
        self._pinning = pinning
        self._joined = {name: tuple(toolsets) for name, toolsets in (joined or {}).items()}
        self._views: dict[str | None, View] = {}
        self._offers = self._prepared = Offers()
        self._upcoming: dict[str | None, View] = {}
        self._checking = threading.Lock()

    async def prepare(self, listing: Listing) -> None:
        """Check what is new in a listing, and make the views that are in use, in a thread."""
        version = (listing.generation, self._own_offered(), self._pins_generation)
        self._prepared, self._upcoming = await asyncio.to_thread(
            self._prepare, listing, version, [None, *(name for name in self._views if name)]
        )

    def _prepare(
        self, listing: Listing, version: tuple[int, bool, int], toolsets: Sequence[str | None]
    ) -> tuple[Offers, dict[str | None, View]]:
        offers = self._check(listing, version[2])
        views: dict[str | None, View] = {}
        for toolset in toolsets:
            if toolset in (None, *offers.of, *self._own_toolsets, *self._joined):
                views[toolset] = self._build(toolset, version, offers, views.get(None))
                views[toolset].prepare()
        return offers, views

    @property
    def toolsets(self) -> list[str]:
        """All toolsets, in naming order."""
        return self._toolsets(self._directory.listing, own_offered=self._own_offered())

    @property
    def endpoints(self) -> list[str]:
        """Names of all endpoints below `/mcp`: those that join toolsets, then the toolsets."""
        return list(dict.fromkeys((*self._joined, *self.toolsets)))

    def joins(self, endpoint: str | None) -> bool:
        """Whether an endpoint joins toolsets; then it hides a toolset of its name."""
        return endpoint in self._joined

    def _toolsets(self, listing: Listing, *, own_offered: bool) -> list[str]:
        names = listing.owners.keys() - self._own_toolsets.keys()
        return [*sorted(names, key=self._rank), *(self._own_toolsets if own_offered else ())]

    @property
    def unseen(self) -> list[str]:
        """Services that belong here and were not seen since the edge started."""
        return [a.service for a in self._directory.absences if a.since_s is None]

    def offers(self, toolset: str) -> bool:
        """Whether there is such an endpoint now."""
        if toolset in self._joined:
            return True
        if toolset in self._own_toolsets:
            return self._own_offered()
        return self._directory.owner(toolset) is not None

    def view(self, toolset: str | None) -> View:
        """What `/mcp` (None) or an endpoint below it offers now."""
        pins = self._pins_generation
        version = (self._directory.generation, self._own_offered(), pins)
        view = self._views.get(toolset)
        if view is None or view.version != version:
            offers = self._current(pins)
            view = self._upcoming.pop(toolset, None)
            if view is None or view.version != version:
                everything = None if toolset is None else self.view(None)
                view = self._build(toolset, version, offers, everything)
            self._views[toolset] = view
            if toolset is None:  # it has every tool: what is gone is forgotten
                for gone in [t for t in self._views if t is not None and not self.offers(t)]:
                    del self._views[gone]
        return view

    def searched(self, toolset: str | None) -> View:
        """What tools/search finds at an endpoint: where call_tool is, everything it can call."""
        return self.view(None if toolset in self._own_toolsets else toolset)

    @property
    def _pins_generation(self) -> int:
        return self._pinning.generation if self._pinning is not None else 0

    def _current(self, pins: int) -> Offers:
        """The offers of what the directory has published."""
        listing = self._directory.listing
        if self._prepared.listing is listing:
            self._offers = self._prepared
        if self._offers.listing is not listing or self._offers.pins != pins:
            self._offers = self._prepared = self._check(listing, pins)
        return self._offers

    def _check(self, listing: Listing, pins: int) -> Offers:
        # One at a time: a review of pins writes what it approves.
        with self._checking:
            return self._prepared.following(
                listing, pins, self._review, left_out=self._own_toolsets.keys()
            )

    def _review(self, toolset: str, service: str, tools: Sequence[ToolDescriptor]) -> Reviewed:
        if self._pinning is None:
            return Reviewed(tuple(tools))
        return self._pinning.review(toolset, service, tools)

    def _rank(self, toolset: str) -> tuple[int, str]:
        try:
            return self._order.index(toolset), ""
        except ValueError:
            return len(self._order), toolset

    def _build(
        self,
        toolset: str | None,
        version: tuple[int, bool, int],
        offers: Offers,
        everything: View | None,
    ) -> View:
        """Merge the offers; `everything` is the view of `/mcp`, for any other."""
        if toolset in self._joined:
            assert everything is not None
            return everything.part(toolset, self._joined[toolset])
        owners = offers.listing.owners
        toolsets = self._toolsets(offers.listing, own_offered=version[1])
        view = View(version, toolset, services={t: owners[t] for t in toolsets if t in owners})
        known = self._views.get(toolset)  # another thread may forget it
        before = known.tool_of if known is not None else {}
        names = sorted(offers.of, key=self._rank) if toolset is None else [toolset]
        found = {name: offers.of[name] for name in names if name in offers.of}
        for name, offer in found.items():
            self._add_tools(view, name, offer, before)
        self._add_own(view, everything)
        for prompt in (prompt for offer in found.values() for prompt in offer.prompts):
            wanted = (toolset is None and prompt.qualified_name) or prompt.name
            listed = self._listed_name(view.prompts, prompt.toolset, wanted)
            if listed is not None:
                view.prompts[listed] = prompt
        for resource in (resource for offer in found.values() for resource in offer.resources):
            view.resources.setdefault(resource.uri, resource)
        templates = tuple(template for offer in found.values() for template in offer.templates)
        return replace(view, templates=templates)

    def _add_tools(
        self,
        view: View,
        toolset: str,
        offer: Offer,
        before: Mapping[tuple[str, str], ListedTool],
    ) -> None:
        # On an endpoint of its own a toolset has its own names.
        qualified = offer.qualified and view.toolset is None
        if not qualified and view.tools.keys().isdisjoint(offer.tools):
            view.tools.update(offer.tools)
            view.tool_of.update(offer.tool_of)
            return
        for name, tool in offer.tools.items():
            if qualified and tool.descriptor.aside:
                continue
            wanted = tool.descriptor.qualified_name if qualified else None
            listed = self._listed_name(view.tools, toolset, wanted or name)
            if listed is None:
                continue
            found = tool
            if listed != name:
                known = before.get((toolset, name))
                # An unchanged tool keeps its compiled validator.
                if known is None or not known.is_of(
                    listed, tool.descriptor, tool.service, tool.held
                ):
                    known = replace(tool, name=listed)
                found = known
            view.tools[listed] = view.tool_of[toolset, name] = found

    def _add_own(self, view: View, everything: View | None) -> None:
        """Add the edge's own tools to `/mcp` and, with the pinned tools, to their own endpoint."""
        if not view.version[1] or (
            view.toolset is not None and view.toolset not in self._own_toolsets
        ):
            return
        for tool in self._own:
            wanted = tool.qualified_name or tool.name
            listed = self._listed_name(view.tools, tool.toolset, wanted)
            if listed is not None:
                found = ListedTool(listed, tool, "")
                view.tools[listed] = view.tool_of[tool.toolset, tool.name] = found
        if everything is not None:
            for name in self._pinned:
                if name in everything.tools:
                    view.tools.setdefault(name, everything.tools[name])

    def _listed_name(self, taken: Mapping[str, Any], toolset: str, name: str) -> str | None:
        if name not in taken:
            return name
        longer = f"{toolset}_{name}"
        if longer not in taken and is_token(longer):
            return longer
        log.warning("%s of toolset %s is not listed: its name is taken", name, toolset)
        return None

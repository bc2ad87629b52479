"""What each toolset offers, checked: what views are made of.

Checking compiles every schema, which takes a second for fifty thousand tools. A toolset is looked
at again only where its service's catalogue, its owner or the pins changed, and then only its new
tools are checked. It awaits nothing, so that it can run in a thread.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from searchbus_bus.catalog.services import Listing
from searchbus_contracts import (
    Catalog,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    ToolDescriptor,
)
from searchbus_contracts.resources import template_pattern
from searchbus_contracts.schemas import foreign_dialect
from searchbus_runtime.pins import Reviewed

from .client_schema import with_nulls
from .view import ListedTool, validator

__all__ = ["Offer", "Offers", "Review", "has_valid_schema"]

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
    templates: tuple[tuple[re.Pattern[str], ResourceTemplate], ...]
    qualified: bool


@dataclass(frozen=True, slots=True)
class Offers:
    """What all toolsets offer.

    Args:
        pins: the generation of the pins that were applied.
        of: by toolset.
    """

    listing: Listing = field(default_factory=Listing)
    pins: int = 0
    of: Mapping[str, Offer] = field(default_factory=dict)

    def following(
        self, listing: Listing, pins: int, review: Review, *, left_out: Collection[str]
    ) -> Offers:
        """The offers of another listing; what is as before stays the same object.

        Args:
            left_out: toolsets that are not looked at.
        """
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
        templates=tuple((template_pattern(t.uri_template), t) for t in items["resource_templates"]),
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

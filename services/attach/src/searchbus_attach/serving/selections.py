"""Selections of tools across servers: each is a toolset, whose tools are those of the servers.

So that the edge serves `/mcp/<view>` like any other endpoint. The tools have the names that they
have on `/mcp`, and are there once: those of a selection are aside.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from searchbus_bus import Call
from searchbus_bus.worker.worker import ToolHandler
from searchbus_contracts import ToolCall, ToolDescriptor, ToolReply

from ..declare.views import Selection
from ..definitions.unmatched import unmatched
from .attached import Attached

__all__ = ["selected_tools", "selection_problems"]

log = logging.getLogger("searchbus.attach")


def selected_tools(
    selection: Selection, servers: Iterable[Attached]
) -> Iterator[tuple[ToolDescriptor, ToolHandler]]:
    """The tools of a selection, each with what calls it at its server."""
    taken: set[str] = set()
    for attached in servers:
        for tool in attached.descriptors:
            name = tool.qualified_name or tool.name
            if name in taken:  # of two long names that have the same hash
                log.warning("%s is in the view %s once: two tools have it", name, selection.name)
            elif selection.allows(name):
                taken.add(name)
                roles = dict.fromkeys((*tool.required_roles, *selection.required_roles))
                descriptor = msgspec.structs.replace(
                    tool,
                    name=name,
                    toolset=selection.name,
                    qualified_name=None,
                    required_roles=tuple(roles),
                    aside=True,
                )
                yield descriptor, _calling(attached, tool.name)


def selection_problems(selection: Selection, servers: Mapping[str, Attached]) -> tuple[str, ...]:
    """What of a selection has no effect, for the operator."""
    names = [
        tool.qualified_name or tool.name for found in servers.values() for tool in found.descriptors
    ]
    unknown = [name for name, found in servers.items() if not found.known]
    return unmatched(selection, names, servers=servers, unknown=unknown)


def _calling(attached: Attached, name: str) -> ToolHandler:
    async def handle(call: Call, request: ToolCall) -> ToolReply:
        return await attached.call(call, msgspec.structs.replace(request, tool=name))

    return handle

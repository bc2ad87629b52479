"""What the worker offers: each server as a toolset, and each selection of their tools.

A selection may have changed whenever a server did; it is offered anew after the servers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from searchbus_bus import Call, Worker
from searchbus_bus.worker.worker import ToolHandler
from searchbus_contracts import ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.attach import AttachedView

from .attached import Attached
from .declare.views import Selection
from .definitions.viewing import pattern_problems


class Offering:
    """The toolsets of a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._listed: dict[str, tuple[str, ...]] = {}
        self._selections: dict[str, Selection] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._changed: set[str] = set()

    def declare(self, selections: Mapping[str, Selection]) -> None:
        """Take these selections in the place of those before."""
        self._changed |= self._selections.keys() | selections.keys()
        self._selections = dict(selections)

    @property
    def views(self) -> tuple[AttachedView, ...]:
        """The selections with their tools."""
        return tuple(
            AttachedView(
                name=name,
                tools=self._listed.get(name, ()),
                problems=self._problems.get(name, ()),
            )
            for name in sorted(self._selections)
        )

    def offer(self, name: str, attached: Attached | None) -> None:
        """Offer what may be listed of a server now; None: it is gone."""
        self._changed |= self._selections.keys()
        if attached is None:
            self._offer_tools(name, ())
            self._worker.offer(name)
            return
        self._offer_tools(name, ((tool, attached.call) for tool in attached.descriptors))
        contents = attached.contents
        offered = contents.prompts or attached.templates
        self._worker.offer(
            name,
            prompts=contents.prompts,
            resources=contents.resources,
            templates=attached.templates,
            source=attached if offered else None,
        )

    def offer_selections(self, attached: Mapping[str, Attached]) -> None:
        """Offer the selections, of servers by name, that may have changed."""
        servers = [attached[name] for name in sorted(attached)]
        while self._changed:
            name = self._changed.pop()
            selection = self._selections.get(name)
            self._problems.pop(name, None)
            if selection is not None:
                self._problems[name] = selection_problems(selection, attached)
                self._offer_tools(name, selected_tools(selection, servers))
            elif name not in attached:  # else its name is now a server's
                self._offer_tools(name, ())

    def _offer_tools(
        self, toolset: str, tools: Iterable[tuple[ToolDescriptor, ToolHandler]]
    ) -> None:
        """Offer these tools in the place of those that the toolset had."""
        for name in self._listed.pop(toolset, ()):
            self._worker.remove_tool(toolset, name)
        listed = []
        for descriptor, handler in tools:
            self._worker.add_tool(descriptor, handler)
            listed.append(descriptor.name)
        if listed:
            self._listed[toolset] = tuple(listed)


log = logging.getLogger("searchbus.attach")


def selected_tools(
    selection: Selection, servers: Iterable[Attached]
) -> Iterator[tuple[ToolDescriptor, ToolHandler]]:
    """The tools of a selection, each with what calls it at its server."""
    listed: set[str] = set()
    for attached in servers:
        for tool in attached.descriptors:
            name = tool.qualified_name or tool.name
            if name in listed:  # of two long names that have the same hash
                log.warning("%s is in the view %s once: two tools have it", name, selection.name)
            elif selection.allows(name):
                listed.add(name)
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
    return pattern_problems(selection, names, servers=servers, unknown=unknown)


def _calling(attached: Attached, name: str) -> ToolHandler:
    async def handle(call: Call, request: ToolCall) -> ToolReply:
        return await attached.call(call, msgspec.structs.replace(request, tool=name))

    return handle

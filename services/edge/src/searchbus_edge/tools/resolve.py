"""Resolves a call once: from the name that a caller gives to the tool that does the work.

Every policy looks at the `Target`: limits of the body, roles, holds, limits of callers, times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from searchbus_contracts import Actor

from ..catalog.registry import Registry
from ..catalog.view import ListedTool, View
from .faults import invalid_params


class Target(Struct, frozen=True):
    """What one call is for.

    Args:
        view: the tools among which the name was looked up.
        name: as the caller gave it.
        listed: the tool of that name; None where there is none.
        called: the tool that does the work: `listed`, or the one that call_tool names.
    """

    view: View
    name: str
    listed: ListedTool | None
    called: ListedTool | None

    @property
    def max_request_bytes(self) -> int:
        """The largest request that the tool declares; 0 where it declares none."""
        return self.called.descriptor.max_request_bytes if self.called is not None else 0


class Resolver:
    """Finds the target of a call."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def target(self, view: View, name: str, arguments: Mapping[str, Any]) -> Target:
        """The target of a call with decoded arguments."""
        return self.of_names(view, name, lambda: str(arguments.get("name")))

    def of_names(self, view: View, name: str, argument: Callable[[], str]) -> Target:
        """The target of a call with undecoded arguments; `argument` gives the argument `name`."""
        listed = called = view.tools.get(name)
        if listed is not None and listed.passes_on:
            called = self._reached(view).tools.get(argument())
        return Target(view, name, listed, called)

    def passed_on(self, target: Target, name: str) -> Target:
        """The target of the call that call_tool makes."""
        return Target(self._reached(target.view), name, target.called, target.called)

    def _reached(self, view: View) -> View:
        """Where call_tool of a view looks for the tool that it names."""
        return view if view.joined else self._registry.view(None)

    def require(self, target: Target, actor: Actor) -> ListedTool:
        """The tool of that name; raises MCPError(-32602) where it is unknown to the caller."""
        listed = target.listed
        if listed is None or not actor.holds(listed.required_roles):
            unseen = ", ".join(self._registry.unseen)
            hint = f" The tools of {unseen} are not known yet: try again later." if unseen else ""
            raise invalid_params(
                f"Unknown tool: {target.name[:64]}. tools/list shows those there are.{hint}"
            )
        return listed

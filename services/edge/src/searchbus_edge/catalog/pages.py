"""tools/list, prompts/list and resources/templates/list, page by page."""

from __future__ import annotations

from typing import TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from searchbus_contracts import Actor

from ..auth.signing import UNKNOWN_CURSOR, CursorError, Cursors
from . import render
from .view import ListedTool, View

T = TypeVar("T")


class Pages:
    """Pages of what a view holds, `page_size` items each."""

    def __init__(self, cursors: Cursors, *, page_size: int) -> None:
        self._cursors = cursors
        self._page_size = page_size

    def tools(
        self, actor: Actor, view: View, cursor: str | None, *, views: bool = False
    ) -> types.ListToolsResult:
        """A page of the tools that the actor may call; `views`: the client shows views of tools."""
        page, following = self.listed_tools(actor, view, cursor)
        tools = [render.tool(t, views=views) for t in page]
        return types.ListToolsResult(tools=tools, next_cursor=following)

    def listed_tools(
        self, actor: Actor, view: View, cursor: str | None
    ) -> tuple[list[ListedTool], str | None]:
        """The same as the edge lists them, and the next cursor."""
        tools = [tool for tool in view.tools.values() if actor.holds(tool.required_roles)]
        return self.page(tools, cursor, "tools", view.toolset)

    def prompts(self, actor: Actor, view: View, cursor: str | None) -> types.ListPromptsResult:
        """A page of the prompts that the actor may use."""
        prompts = [(name, p) for name, p in view.prompts.items() if actor.holds(p.required_roles)]
        page, following = self.page(prompts, cursor, "prompts", view.toolset)
        return types.ListPromptsResult(
            prompts=[render.prompt(name, p) for name, p in page], next_cursor=following
        )

    def templates(
        self, actor: Actor, view: View, cursor: str | None
    ) -> types.ListResourceTemplatesResult:
        """A page of the resource templates that the actor may use."""
        templates = [t for _, t in view.templates if t.listed and actor.holds(t.required_roles)]
        page, following = self.page(templates, cursor, "templates", view.toolset)
        return types.ListResourceTemplatesResult(
            resource_templates=[render.template(t) for t in page], next_cursor=following
        )

    def page(
        self, items: list[T], cursor: str | None, *bound_to: object
    ) -> tuple[list[T], str | None]:
        """A page and the next cursor; where the list has changed, the position still counts."""
        start = 0
        if cursor is not None:
            try:
                start = int(self._cursors.read(cursor, *bound_to)["o"])
            except CursorError:
                raise MCPError(types.INVALID_PARAMS, UNKNOWN_CURSOR) from None
        end = start + self._page_size
        following = self._cursors.issue({"o": end}, *bound_to) if end < len(items) else None
        return items[start:end], following

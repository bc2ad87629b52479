"""GET /api/v1/tools: tools as tools/list shows them, with their addresses; with a query, the best
ones as tools/search finds them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from searchbus_contracts import ErrorCode

from ...catalog import render
from ...catalog.pages import Pages
from ...catalog.view import ListedTool, View
from ...http.head import Received
from ...http.problems import Problem, ProblemError
from ...search.methods import SearchMethods
from ...tools.faults import shown_error
from ..calls import HttpCalls
from .paths import path_of

__all__ = ["ToolList"]

_MAX_RENDERED = 2048


class ToolPage(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One page."""

    tools: list[Raw]
    next_cursor: str | None = None


class ToolList:
    """Lists and searches the tools of a caller."""

    def __init__(self, calls: HttpCalls, pages: Pages, search: SearchMethods) -> None:
        self._calls = calls
        self._pages = pages
        self._search = search
        self._rendered: dict[str, Raw] = {}
        self._rendered_of: Any = None

    async def page(self, received: Received, query: str | None, cursor: str | None) -> bytes:
        """A page as JSON; raises ProblemError.

        Args:
            query: what the caller wants to do; None lists all.
        """
        method = "tools/list" if query is None else "tools/search"
        view = self._calls.everything
        with self._calls.message(received, method):
            try:
                if query is None:
                    found, following = self._pages.listed_tools(received.actor, view, cursor)
                else:
                    found, following = await self._found(received, view, query, cursor)
            except ProblemError:
                raise
            except Exception as error:
                raise ProblemError(Problem.of_mcp(shown_error(error, method))) from None
        tools = [self._render(view, listed) for listed in found]
        return msgspec.json.encode(ToolPage(tools, following))

    async def _found(
        self, received: Received, view: View, query: str, cursor: str | None
    ) -> tuple[list[ListedTool], str | None]:
        if not self._search.available:
            raise ProblemError(Problem.of(ErrorCode.UNAVAILABLE, _NO_INDEX, retryable=True))
        return await self._search.find_tools(received.actor, view, query, cursor)

    def _render(self, view: View, listed: ListedTool) -> Raw:
        """The tool as tools/list shows it, and its path."""
        if self._rendered_of != view.version or len(self._rendered) > _MAX_RENDERED:
            self._rendered_of = view.version
            self._rendered = {}
        found = self._rendered.get(listed.name)
        if found is None:
            shown = render.tool(listed).model_dump(by_alias=True, mode="json", exclude_none=True)
            found = Raw(msgspec.json.encode({"path": path_of(listed), **shown}))
            self._rendered[listed.name] = found
        return found


_NO_INDEX = "Tools cannot be searched now: no tool index is running. Omit the query to list all."

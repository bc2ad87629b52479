"""The doors to search: tools/search, prompts/search, resources/search (MCP search proposal).

The capability `search: true` stands in each feature area of `initialize` and `server/discover`, and
an extension entry beside it, which SDK clients can read. All three are absent, and the methods
unknown (-32601), where no index is on the bus.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from searchbus_contracts import Actor

from . import render
from .catalogue import View
from .discovery import PAGE_SIZE, Discovery

__all__ = ["EXTENSION", "FEATURES", "ListToolsParams", "SearchMethods", "SearchParams"]

EXTENSION = "dev.searchbus/search"
FEATURES = ("tools", "prompts", "resources")
Context = ServerRequestContext[Any, Any]


class SearchParams(types.PaginatedRequestParams):
    """Parameters of the three methods; a missing query is -32602."""

    query: str


class ListToolsParams(types.PaginatedRequestParams):
    """tools/list with an optional query: only what fits, best first."""

    query: str | None = None


class SearchMethods:
    """Handlers over one endpoint's view."""

    def __init__(
        self,
        discovery: Discovery,
        view: Callable[[], View],
        actor_of: Callable[[Context], Actor],
    ) -> None:
        self._discovery = discovery
        self._view = view
        self._actor_of = actor_of

    async def tools(self, ctx: Context, params: SearchParams) -> types.ListToolsResult:
        """tools/search: as tools/list shows them, at most ten, best first."""
        self._require(ctx)
        found, cursor = await self._discovery.tools(
            self._actor_of(ctx), self._view(), params.query, params.cursor
        )
        return types.ListToolsResult(tools=[render.tool(t) for t in found], next_cursor=cursor)

    async def prompts(self, ctx: Context, params: SearchParams) -> types.ListPromptsResult:
        """prompts/search."""
        self._require(ctx)
        found, cursor = await self._discovery.prompts(
            self._actor_of(ctx), self._view(), params.query, params.cursor
        )
        return types.ListPromptsResult(
            prompts=[render.prompt(name, p) for name, p in found], next_cursor=cursor
        )

    async def resources(self, ctx: Context, params: SearchParams) -> types.ListResourcesResult:
        """resources/search: by descriptors and by content."""
        self._require(ctx)
        found, cursor = await self._discovery.resources(
            self._actor_of(ctx), self._view(), params.query, params.cursor
        )
        return types.ListResourcesResult(
            resources=[render.resource(r) for r in found], next_cursor=cursor
        )

    async def declare(self, ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        """Middleware: the SDK's capability types drop unknown keys, so they are added here."""
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover") or not self._discovery.available:
            return result
        if not isinstance(result, dict):
            result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        capabilities = dict(result.get("capabilities") or {})
        for feature in FEATURES:
            capabilities[feature] = {**(capabilities.get(feature) or {}), "search": True}
        capabilities["extensions"] = {
            **(capabilities.get("extensions") or {}),
            EXTENSION: {"methods": [f"{f}/search" for f in FEATURES], "pageSize": PAGE_SIZE},
        }
        return {**result, "capabilities": capabilities}

    def _require(self, ctx: Context) -> None:
        if not self._discovery.available:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)

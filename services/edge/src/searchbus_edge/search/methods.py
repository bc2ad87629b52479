"""tools/search, prompts/search and resources/search (MCP search proposal).

The capability `search: true` stands in each feature area of `initialize` and `server/discover`, and
beside it an extension entry, which SDK clients can read. Without a tool index on the bus, nothing
is declared and the methods are unknown (-32601).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import to_builtins
from pydantic import BaseModel

from searchbus_contracts import Actor
from searchbus_contracts.coverage import COVERAGE
from searchbus_contracts.retrieval import EXPLANATION

from ..catalog import render
from ..catalog.view import ListedTool, View
from .finder import PAGE_SIZE, Finder

EXTENSION = "dev.searchbus/search"
FEATURES = ("tools", "prompts", "resources")
Context = ServerRequestContext[Any, Any]


class SearchParams(types.PaginatedRequestParams):
    """Parameters of the three methods; `explain` adds to `_meta` what decided on the best tools."""

    query: Any = None
    explain: bool = False

    def check(self) -> None:
        """Raises MCPError(-32602) where the query is no string."""
        if not isinstance(self.query, str):
            raise MCPError(types.INVALID_PARAMS, "query: a string is required.")


class ListToolsParams(types.PaginatedRequestParams):
    """tools/list with an optional query: only the tools that match, best first."""

    query: str | None = None


class SearchMethods:
    """The three methods, and their declaration."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    @property
    def available(self) -> bool:
        """Whether search is offered now."""
        return self._finder.offered()

    async def admit(self, actor: Actor) -> None:
        """Count a look through the tools as one search; raises Fault(rate_limited)."""
        await self._finder.admit(actor)

    async def tools(self, actor: Actor, view: View, params: SearchParams) -> types.ListToolsResult:
        """tools/search: tools as tools/list shows them, at most ten, best first."""
        found, cursor = await self.find_tools(actor, view, params.query, params.cursor)
        meta = None
        if params.explain:
            explanation = await self._finder.explain_tools(actor, view, params.query)
            meta = explanation and {EXPLANATION: to_builtins(explanation)}
        return types.ListToolsResult(
            tools=[render.tool(t) for t in found], next_cursor=cursor, _meta=meta
        )

    def find_tools(
        self, actor: Actor, view: View, query: str, cursor: str | None
    ) -> Awaitable[tuple[list[ListedTool], str | None]]:
        """A page of tools/search, and the next cursor; MCPError(-32601) without an index."""
        self._require("tools/search")
        return self._finder.tools(actor, view, query, cursor)

    async def prompts(
        self, actor: Actor, view: View, params: SearchParams
    ) -> types.ListPromptsResult:
        """prompts/search."""
        self._require("prompts/search")
        found, cursor = await self._finder.prompts(actor, view, params.query, params.cursor)
        return types.ListPromptsResult(
            prompts=[render.prompt(name, p) for name, p in found], next_cursor=cursor
        )

    async def resources(
        self, actor: Actor, view: View, params: SearchParams
    ) -> types.ListResourcesResult:
        """resources/search: by descriptors and by content; `_meta` has the coverage."""
        self._require("resources/search")
        found, cursor, coverage = await self._finder.resources(
            actor, view, params.query, params.cursor
        )
        return types.ListResourcesResult(
            resources=[render.resource(r) for r in found],
            next_cursor=cursor,
            _meta={COVERAGE: to_builtins(coverage)},
        )

    async def declare(self, ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        """Middleware that adds the capability: the SDK's capability types drop unknown keys."""
        result = await call_next(ctx)
        if ctx.method not in ("initialize", "server/discover") or not self.available:
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

    @staticmethod
    def dump(result: BaseModel, revision: str) -> dict[str, Any]:
        """A result as JSON with the fields of a revision; the SDK knows none of these three."""
        found: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        if revision not in MODERN_PROTOCOL_VERSIONS:
            for name in ("resultType", "ttlMs", "cacheScope"):
                found.pop(name, None)
        return found

    def _require(self, method: str) -> None:
        if not self.available:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)

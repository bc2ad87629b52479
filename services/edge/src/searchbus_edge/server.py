"""One MCP server object for each endpoint: handlers over the live catalogue.

The same object serves HTTP and stdio, all revisions that the SDK negotiates.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import mcp_types as types
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from searchbus_bus import Bus
from searchbus_contracts import VERSION, Actor, Fault

from . import render
from .calls import Caller
from .catalogue import Catalogue, View, visible
from .cursors import BadCursor, Cursors
from .discovery import Discovery
from .faults import internal_error, invalid_params, raise_for
from .guard import ACTOR_KEY
from .prompts import complete, fill
from .resources import Resources
from .search_methods import ListToolsParams, SearchMethods, SearchParams
from .telemetry import Tracing

__all__ = ["EndpointServer"]

log = logging.getLogger("searchbus.edge")
Context = ServerRequestContext[Any, Any]
R = TypeVar("R")

EVERYBODY = Actor(subject="anonymous", roles=("*",))
"""The caller where there is no access control: the edge then listens on loopback only."""


class EndpointServer:
    """The handlers of `/mcp` (toolset None) or `/mcp/<toolset>`; `mcp` is the SDK's object."""

    def __init__(
        self,
        bus: Bus,
        catalogue: Catalogue,
        caller: Caller,
        discovery: Discovery,
        cursors: Cursors,
        listen: ListenHandler,
        *,
        state_boundary: RequestStateBoundary,
        tracing: Tracing,
        toolset: str | None,
        page_size: int,
        list_ttl_ms: int,
    ) -> None:
        self._catalogue = catalogue
        self._caller = caller
        self._discovery = discovery
        self._cursors = cursors
        self._resources = Resources(bus, cursors, page_size=page_size)
        self._search = SearchMethods(discovery, lambda: self.view, actor_of)
        self._toolset = toolset
        self._page_size = page_size
        hint = CacheHint(ttl_ms=list_ttl_ms, scope="private")
        self.mcp: Server[Any] = Server(
            "searchbus" if toolset is None else f"searchbus-{toolset}",
            version=VERSION,
            title="searchbus",
            instructions="Search and retrieval tools for agents.",
            cache_hints={
                "tools/list": hint,
                "prompts/list": hint,
                "resources/list": hint,
                "resources/templates/list": hint,
            },
            get_tool_input_schema=self._input_schema,
            on_call_tool=_guarded(self._call_tool),
            on_list_prompts=_guarded(self._list_prompts),
            on_get_prompt=_guarded(self._get_prompt),
            on_completion=_guarded(self._complete),
            on_list_resources=_guarded(self._list_resources),
            on_list_resource_templates=_guarded(self._list_templates),
            on_read_resource=_guarded(self._read_resource),
            on_subscribe_resource=_guarded(self._accept),
            on_unsubscribe_resource=_guarded(self._accept),
            on_subscriptions_listen=listen,
        )
        self.mcp.add_request_handler("tools/list", ListToolsParams, _guarded(self._list_tools))
        for method, search in (
            ("tools/search", self._search.tools),
            ("prompts/search", self._search.prompts),
            ("resources/search", self._search.resources),
        ):
            self.mcp.add_request_handler(method, SearchParams, _guarded(search))
        self.mcp.middleware[:] = [tracing.middleware, self._search.declare]
        # State that a client carries for a tool comes back unchanged or not at all.
        self.mcp.middleware.append(state_boundary)
        # Deprecated in 2026-07-28 and warned of by the constructor; older clients still send it.
        self.mcp.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, _guarded(self._accept)
        )

    @property
    def view(self) -> View:
        """What the endpoint offers now."""
        return self._catalogue.view(self._toolset)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        listed = self.view.tools.get(name)
        return None if listed is None else listed.descriptor.input_schema

    async def _list_tools(self, ctx: Context, params: ListToolsParams) -> types.ListToolsResult:
        if params.query is not None and self._discovery.available:
            wanted = SearchParams(query=params.query, cursor=params.cursor)
            return await self._search.tools(ctx, wanted)
        actor = actor_of(ctx)
        tools = [t for t in self.view.tools.values() if visible(actor, t.descriptor)]
        page, cursor = self._page(tools, params, "tools")
        return types.ListToolsResult(tools=[render.tool(t) for t in page], next_cursor=cursor)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        return await self._caller.call(ctx, self.view, actor_of(ctx), params)

    async def _list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        actor = actor_of(ctx)
        prompts = [(n, p) for n, p in self.view.prompts.items() if visible(actor, p)]
        page, cursor = self._page(prompts, params, "prompts")
        return types.ListPromptsResult(
            prompts=[render.prompt(name, p) for name, p in page], next_cursor=cursor
        )

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        descriptor = self.view.prompts.get(params.name)
        if descriptor is None or not visible(actor_of(ctx), descriptor):
            raise invalid_params(f"Unknown prompt: {params.name[:64]}.")
        return fill(descriptor, params.arguments or {})

    async def _complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        descriptor = None
        if isinstance(params.ref, types.PromptReference):
            descriptor = self.view.prompts.get(params.ref.name)
            if descriptor is None or not visible(actor_of(ctx), descriptor):
                raise invalid_params(f"Unknown prompt: {params.ref.name[:64]}.")
        return complete(descriptor, params.argument.name, params.argument.value)

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None else None
        return await self._resources.list_page(actor_of(ctx), self.view, cursor)

    async def _list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        actor = actor_of(ctx)
        templates = [t for _, t in self.view.templates if visible(actor, t)]
        page, cursor = self._page(templates, params, "templates")
        return types.ListResourceTemplatesResult(
            resource_templates=[render.template(t) for t in page], next_cursor=cursor
        )

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._resources.read(ctx, actor_of(ctx), self.view, str(params.uri))

    async def _accept(self, ctx: Context, params: Any) -> types.EmptyResult:
        """Accepted and without effect: a stateless edge keeps nothing between requests.

        `subscriptions/listen` of revision 2026-07-28 is the way to hear of changes.
        """
        return types.EmptyResult()

    def _page(
        self, items: list[R], params: types.PaginatedRequestParams | None, kind: str
    ) -> tuple[list[R], str | None]:
        """A page, and the cursor of the next; a list that changed goes on at the same place."""
        cursor = params.cursor if params is not None else None
        start = 0
        if cursor is not None:
            try:
                start = int(self._cursors.open(cursor, kind, self._toolset)["o"])
            except BadCursor:
                message = "cursor is none that this list gave. Start without one."
                raise invalid_params(message) from None
        end = start + self._page_size
        following = self._cursors.seal({"o": end}, kind, self._toolset)
        return items[start:end], following if end < len(items) else None


def actor_of(ctx: Context) -> Actor:
    """Who calls: whom the gate let in; on standard input, the user of this machine."""
    scope = getattr(ctx.request, "scope", None)
    found = scope.get(ACTOR_KEY) if scope is not None else None
    return found if isinstance(found, Actor) else EVERYBODY


def _guarded(
    handler: Callable[[Context, Any], Awaitable[R]],
) -> Callable[[Context, Any], Awaitable[R]]:
    """Let out MCP errors only: the SDK would show any other exception's text to the client."""

    @functools.wraps(handler)
    async def guarded(ctx: Context, params: Any) -> R:
        try:
            return await handler(ctx, params)
        except MCPError:
            raise
        except Fault as fault:
            raise raise_for(fault) from None
        except (Exception, ValidationError):
            log.exception("%s failed", ctx.method)
            raise internal_error() from None

    return guarded

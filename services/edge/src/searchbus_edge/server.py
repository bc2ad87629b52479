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
from searchbus_contracts import Actor, Fault, ResourceReadReply, ResourceReadRequest

from . import render
from .calls import Caller
from .catalogue import BadCursor, Catalogue, View, page_of, visible
from .faults import internal_error, invalid_params, raise_for
from .prompts import complete, fill

__all__ = ["EndpointServer"]

log = logging.getLogger("searchbus.edge")
Context = ServerRequestContext[Any, Any]
R = TypeVar("R")

VERSION = "0.1.0"
READ_TIMEOUT_S = 30.0
EVERYBODY = Actor(subject="anonymous", roles=("*",))
"""The caller where there is no access control: the edge then listens on loopback only."""


class EndpointServer:
    """The handlers of `/mcp` (toolset None) or `/mcp/<toolset>`; `mcp` is the SDK's object."""

    def __init__(
        self,
        bus: Bus,
        catalogue: Catalogue,
        caller: Caller,
        listen: ListenHandler,
        *,
        state_boundary: RequestStateBoundary,
        toolset: str | None,
        page_size: int,
        list_ttl_ms: int,
    ) -> None:
        self._bus = bus
        self._catalogue = catalogue
        self._caller = caller
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
            on_list_tools=_guarded(self._list_tools),
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

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
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
        actor = actor_of(ctx)
        resources = [r for r in self.view.resources.values() if visible(actor, r)]
        page, cursor = self._page(resources, params, "resources")
        return types.ListResourcesResult(
            resources=[render.resource(r) for r in page], next_cursor=cursor
        )

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
        uri = str(params.uri)
        actor = actor_of(ctx)
        view = self.view
        found = view.resources.get(uri) or next(
            (template for pattern, template in view.templates if pattern.fullmatch(uri)), None
        )
        if found is None or not visible(actor, found) or len(uri) > 2048:
            raise _resource_not_found(ctx, uri)
        try:
            reply = await self._bus.request(
                self._bus.subjects.resource(found.toolset, "read"),
                ResourceReadRequest(uri=uri),
                ResourceReadReply,
                service=view.services.get(found.toolset, found.toolset),
                timeout_s=READ_TIMEOUT_S,
                actor=actor,
            )
        except Fault as fault:
            if fault.code == "not_found":
                raise _resource_not_found(ctx, uri) from None
            raise
        return types.ReadResourceResult(
            contents=[render.resource_contents(body) for body in reply.contents]
        )

    async def _accept(self, ctx: Context, params: Any) -> types.EmptyResult:
        """Accepted and without effect: a stateless edge keeps nothing between requests.

        `subscriptions/listen` of revision 2026-07-28 is the way to hear of changes.
        """
        return types.EmptyResult()

    def _page(
        self, items: list[R], params: types.PaginatedRequestParams | None, kind: str
    ) -> tuple[list[R], str | None]:
        cursor = params.cursor if params is not None else None
        try:
            return page_of(items, cursor, self._page_size, kind=f"{kind}/{self._toolset}")
        except BadCursor:
            raise invalid_params("cursor is none that this list gave. Start without one.") from None


def actor_of(ctx: Context) -> Actor:
    """Who calls."""
    return EVERYBODY


def _resource_not_found(ctx: Context, uri: str) -> MCPError:
    # Revision 2026-07-28 retired -32002.
    code = types.INVALID_PARAMS if ctx.protocol_version >= "2026" else -32002
    return MCPError(code, "Resource not found", {"uri": uri[:2048]})


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

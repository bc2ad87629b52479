"""The MCP server of each endpoint: handlers over the registry.

The same server serves HTTP and stdio, in all revisions that the SDK negotiates.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as types
import msgspec
from mcp import MCPError
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import INVALID_REQUEST
from pydantic import BaseModel, ValidationError

from searchbus_bus import Bus
from searchbus_bus.tasks import Background
from searchbus_contracts import VERSION, Actor, ErrorCode, Fault
from searchbus_contracts.attach import ATTACHED_BY

from ..catalog.prompts import Prompts
from ..catalog.registry import Registry
from ..catalog.render import Pages
from ..catalog.resources import Resources
from ..catalog.view import View
from ..search.lazy import TOOL_REFERENCES
from ..search.methods import ListToolsParams, SearchMethods, SearchParams
from ..tasks.store import Task
from ..tools.call import ForwardedEvents, Served, ToolCalls, ToolRequest
from ..tools.faults import guarded, invalid_params, raise_for
from ..tools.reply import tool_result
from ..tools.resolve import Target
from .client import VIEWS, Context, client_capabilities, dump_responses, request_input, sending
from .extensions import Extensions, read_view, takes_tasks
from .kernel import Called

R = TypeVar("R")
log = logging.getLogger("searchbus.edge")
_SERVICE = "attach"
_TIMEOUT_S = 5.0
"""For the worker's answer; where it is on another bus nobody listens, which is known at once."""
_MAX_NAMES_CHARS = 200


@dataclass(frozen=True, slots=True)
class EndpointServers:
    """Makes the server of each endpoint, with the same handlers.

    Args:
        listen: serves `subscriptions/listen`.
        middleware: of the SDK's server, outermost first.
        default_actor: the caller of a request that carries none (no access control, stdio).
        list_ttl_ms: how long clients may cache a list.
    """

    registry: Registry
    calls: ToolCalls
    pages: Pages
    resources: Resources
    prompts: Prompts
    search: SearchMethods
    extensions: Extensions
    listen: Callable[
        [Context, types.SubscriptionsListenRequestParams],
        Awaitable[types.SubscriptionsListenResult],
    ]
    middleware: Sequence[Any]
    default_actor: Actor
    list_ttl_ms: int

    def make(self, toolset: str | None) -> EndpointServer:
        """The server of `/mcp` (None) or `/mcp/<toolset>`."""
        return EndpointServer(toolset, self)


class _Server(Server[Any]):
    def get_capabilities(self, *arguments: Any, **options: Any) -> types.ServerCapabilities:
        """See the SDK, which takes updates of single resources for served; none is ever sent."""
        found = super().get_capabilities(*arguments, **options)
        if found.resources is not None:
            found.resources.subscribe = None
        return found


class EndpointServer:
    """The handlers of one endpoint, which may join toolsets; `mcp` is the SDK's server."""

    def __init__(self, toolset: str | None, handlers: EndpointServers) -> None:
        self._toolset = toolset
        self._handlers = handlers
        self.calls = handlers.calls
        self.search = handlers.search
        self.joins = handlers.registry.joins(toolset)
        hint = CacheHint(ttl_ms=handlers.list_ttl_ms, scope="private")
        self.mcp: Server[Any] = _Server(
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
            on_list_prompts=guarded(self._listing(handlers.pages.prompts)),
            on_get_prompt=guarded(self._get_prompt),
            on_completion=guarded(self._complete),
            on_list_resources=guarded(self._list_resources),
            on_list_resource_templates=guarded(self._listing(handlers.pages.templates)),
            on_read_resource=guarded(self._read_resource),
            # Not declared; the conformance suite of 2025-11-25 asks servers that do not as well.
            on_subscribe_resource=guarded(self._accept),
            on_unsubscribe_resource=guarded(self._accept),
            on_subscriptions_listen=handlers.listen,
        )
        self.mcp.add_request_handler("tools/list", ListToolsParams, guarded(self._list_tools))
        # Its result may be a task, which the constructor's type does not have.
        call = guarded(self._call_tool)
        self.mcp.add_request_handler("tools/call", types.CallToolRequestParams, call)
        for method, search, view in (
            ("tools/search", handlers.search.tools, lambda: self.searched),
            ("prompts/search", handlers.search.prompts, lambda: self.view),
            ("resources/search", handlers.search.resources, lambda: self.view),
        ):
            handler = guarded(self._searching(search, view))
            self.mcp.add_request_handler(method, SearchParams, handler)
        handlers.extensions.add_to(
            self.mcp, toolset, handlers.pages,
            view=lambda: self.view, actor_of=self._actor, ttl_ms=handlers.list_ttl_ms,
        )  # fmt: skip
        self.mcp.middleware[:] = [*handlers.middleware, name_fields]
        # Deprecated in 2026-07-28, and the constructor warns of it; older clients still send it.
        self.mcp.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, guarded(self._accept)
        )

    @property
    def view(self) -> View:
        """What the endpoint offers now."""
        return self._handlers.registry.view(self._toolset)

    def bound(self, actor: Actor) -> Actor:
        """The caller at this endpoint: where it joins toolsets, no tool can name one of others."""
        if not self.joins:
            return actor
        return msgspec.structs.replace(actor, endpoint=self._toolset)

    @property
    def searched(self) -> View:
        """What tools/search finds."""
        return self._handlers.registry.searched(self._toolset)

    def largest_request(self) -> int:
        """The largest request that a tool of the edge declares, in bytes."""
        return self._handlers.registry.view(None).max_request_bytes

    def _actor(self, ctx: Context) -> Actor:
        return actor_of(ctx, self.bound(self._handlers.default_actor))

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        listed = self.view.tools.get(name)
        return None if listed is None else listed.descriptor.input_schema

    async def _list_tools(self, ctx: Context, params: ListToolsParams) -> types.ListToolsResult:
        search = self._handlers.search
        if params.query is not None and search.available:
            query = SearchParams(query=params.query, cursor=params.cursor)
            return await search.tools(self._actor(ctx), self.searched, query)
        views = VIEWS in client_capabilities(ctx)
        return self._handlers.pages.tools(self._actor(ctx), self.view, params.cursor, views=views)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        called = ctx.request if isinstance(ctx.request, Called) else None
        # Of a call that the fast way made only the rendering is left.
        served: Served | Task | None = called.served if called is not None else None
        if served is None:
            served = await self._run_tool(ctx, params, called.target if called else None)
        if isinstance(served, Task):
            return served.created()
        if served.reply.input_required is not None:
            return request_input(ctx, served.reply.input_required)
        return tool_result(served.reply.decoded())

    async def _run_tool(
        self, ctx: Context, params: types.CallToolRequestParams, target: Target | None
    ) -> Served | Task:
        calls, arguments = self._handlers.calls, params.arguments or {}
        tasks = self._handlers.extensions.tasks
        capabilities = client_capabilities(ctx)
        if isinstance(ctx.meta, Mapping) and ctx.meta.get(TOOL_REFERENCES) is True:
            capabilities = (*capabilities, TOOL_REFERENCES)
        if target is None:  # stdio has no policy before this one
            target = calls.resolver.target(self.view, params.name, arguments)
        async with ForwardedEvents(sending(ctx)) as on_event:
            request = ToolRequest(
                self._actor(ctx), target, arguments,
                capabilities=capabilities, input_responses=dump_responses(params),
                state=params.request_state, on_event=on_event,
            )  # fmt: skip
            if tasks is not None and takes_tasks(ctx):
                return await tasks.call(request, self._toolset)
            return await calls.call(request)

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        return await self._handlers.prompts.get(
            self._actor(ctx), self.view, params.name, params.arguments or {}
        )

    async def _complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        return await self._handlers.prompts.complete(self._actor(ctx), self.view, params)

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        actor, uri = self._actor(ctx), str(params.uri)
        here = read_view(uri) or self._handlers.extensions.skills.read(actor, self.view, uri)
        return here or (
            await self._handlers.resources.read(
                actor, self.view, uri, revision=ctx.protocol_version
            )
        )

    def _listing(
        self, list_page: Callable[[Actor, View, str | None], R]
    ) -> Callable[[Context, types.PaginatedRequestParams | None], Awaitable[R]]:
        async def handler(ctx: Context, params: types.PaginatedRequestParams | None) -> R:
            cursor = params.cursor if params is not None else None
            return list_page(self._actor(ctx), self.view, cursor)

        return handler

    async def _list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None else None
        return await self._handlers.resources.list_page(self._actor(ctx), self.view, cursor)

    async def _accept(self, ctx: Context, params: Any) -> types.EmptyResult:
        """Accept without effect: clients follow changes by `subscriptions/listen` (2026-07-28)."""
        return types.EmptyResult()

    def _searching(
        self,
        search: Callable[[Actor, View, SearchParams], Awaitable[BaseModel]],
        view: Callable[[], View],
    ) -> Callable[[Context, SearchParams], Awaitable[dict[str, Any]]]:
        async def handler(ctx: Context, params: SearchParams) -> dict[str, Any]:
            params.check()
            found = await search(self._actor(ctx), view(), params)
            return self._handlers.search.dump(found, ctx.protocol_version)

        return handler


def actor_of(ctx: Context, default: Actor) -> Actor:
    """The identified caller of an HTTP request; else the default."""
    found = getattr(ctx.request, "actor", None)
    return found if isinstance(found, Actor) else default


MAX_STREAMS = 1024
"""Open streams of one caller, as many as connections of one address."""


class ListChanges:
    """Publishes changes: `listen` serves the method, `on_change` a client of an older revision."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._published = InMemorySubscriptionBus()
        self._tasks = Background()
        # All together are limited as connections.
        self._handler = ListenHandler(self._published, max_subscriptions=sys.maxsize)
        self._streams: Counter[str] = Counter()
        self._closed = False

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Send changes until the client leaves; raises MCPError if it has too many streams."""
        if self._closed:  # who listened is back at once, and would hold the shutdown again
            message = "This edge is stopping. Listen again in a moment."
            raise raise_for(Fault(ErrorCode.UNAVAILABLE, message))
        caller = getattr(ctx.request, "caller", "")
        if self._streams[caller] >= MAX_STREAMS:
            message = f"{MAX_STREAMS} streams of this caller are open. Close some, or wait."
            raise raise_for(Fault(ErrorCode.OVERLOADED, message))
        self._streams[caller] += 1
        params.notifications.resource_subscriptions = None  # so that nobody waits for an update
        try:
            return await self._handler(ctx, params)
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller]

    def notify(self) -> None:
        """Tell every listening client that tools, prompts and resources have changed."""
        log.info("the lists of tools, prompts and resources have changed")
        self.on_change()
        self._tasks.start(self._publish())

    def close(self) -> None:
        """End the open streams, and begin no more: they would hold up the server's shutdown."""
        self._closed = True
        self._handler.close()

    async def _publish(self) -> None:
        events: tuple[Any, ...] = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
        for event in events:
            await self._published.publish(event)


async def refuse_own(bus: Bus, ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    """Middleware that refuses a request from a worker of this bus. Raises MCPError."""
    worker = ctx.meta.get(ATTACHED_BY) if isinstance(ctx.meta, Mapping) else None
    if isinstance(worker, str) and await bus.ping(_SERVICE, worker, _TIMEOUT_S):
        message = "This is the searchbus that asks. Remove it from its own attached servers."
        raise MCPError(INVALID_REQUEST, message, {ATTACHED_BY: worker})
    return await call_next(ctx)


async def name_fields(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    """Names the parameters that the SDK refuses, without their values. Raises MCPError."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        places = [fault["loc"] for fault in error.errors(include_input=False, include_url=False)]
        names = (".".join(map(str, place)).removeprefix("params.") for place in places)
        named = ", ".join(dict.fromkeys(names))[:_MAX_NAMES_CHARS] or "params"
        raise invalid_params(f"Wrong or missing parameters: {named}. Correct them.") from None

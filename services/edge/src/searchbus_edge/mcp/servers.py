"""The MCP server of each endpoint: handlers over the registry.

The same server serves HTTP and stdio, in all revisions that the SDK negotiates.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import INVALID_REQUEST
from pydantic import BaseModel

from searchbus_bus import Bus
from searchbus_contracts import (
    VERSION,
    Actor,
    ErrorCode,
    Fault,
    InputRequired,
    Ping,
    Pong,
    ToolEvent,
)
from searchbus_contracts.attach import ATTACHED_BY

from ..catalog.pages import Pages
from ..catalog.prompts import Prompts
from ..catalog.registry import Registry
from ..catalog.resources import Resources
from ..catalog.view import View
from ..search.methods import ListToolsParams, SearchMethods, SearchParams
from ..tools.call import ForwardedEvents, SendEvent, Served, ToolCalls, ToolRequest, log_data
from ..tools.faults import failed_reply, shown_error
from ..tools.reply import tool_result
from ..tools.resolve import Target
from .kernel import Called

Context = ServerRequestContext[Any, Any]
P = TypeVar("P")
R = TypeVar("R")
log = logging.getLogger("searchbus.edge")
_SERVICE = "attach"
_TIMEOUT_S = 5.0
"""For the worker's answer; where it is on another bus nobody listens, which is known at once."""
FIRST_REVISION = "2026-07-28"
_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


@dataclass(frozen=True, slots=True)
class Handlers:
    """What all endpoints share.

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
    listen: ListenHandler
    middleware: Sequence[Any]
    default_actor: Actor
    list_ttl_ms: int


class EndpointServers:
    """One server per endpoint, made at its first use: a new toolset needs no restart."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._servers: dict[str | None, EndpointServer] = {}

    def get(self, toolset: str | None) -> EndpointServer:
        """The server of `/mcp` (None) or `/mcp/<toolset>`."""
        server = self._servers.get(toolset)
        if server is None:
            server = self._servers[toolset] = EndpointServer(toolset, self._handlers)
        return server


class EndpointServer:
    """The handlers of one endpoint; `mcp` is the SDK's server."""

    def __init__(self, toolset: str | None, handlers: Handlers) -> None:
        self._toolset = toolset
        self._handlers = handlers
        hint = CacheHint(ttl_ms=handlers.list_ttl_ms, scope="private")
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
            on_list_prompts=_guarded(self._listing(handlers.pages.prompts)),
            on_get_prompt=_guarded(self._get_prompt),
            on_completion=_guarded(self._complete),
            on_list_resources=_guarded(self._list_resources),
            on_list_resource_templates=_guarded(self._listing(handlers.pages.templates)),
            on_read_resource=_guarded(self._read_resource),
            on_subscribe_resource=_guarded(self._accept),
            on_unsubscribe_resource=_guarded(self._accept),
            on_subscriptions_listen=handlers.listen,
        )
        self.mcp.add_request_handler("tools/list", ListToolsParams, _guarded(self._list_tools))
        for method, search, view in (
            ("tools/search", handlers.search.tools, lambda: self.searched),
            ("prompts/search", handlers.search.prompts, lambda: self.view),
            ("resources/search", handlers.search.resources, lambda: self.view),
        ):
            handler = _guarded(self._searching(search, view))
            self.mcp.add_request_handler(method, SearchParams, handler)
        self.mcp.middleware[:] = handlers.middleware
        # Deprecated in 2026-07-28, and the constructor warns of it; older clients still send it.
        self.mcp.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, _guarded(self._accept)
        )

    @property
    def view(self) -> View:
        """What the endpoint offers now."""
        return self._handlers.registry.view(self._toolset)

    @property
    def searched(self) -> View:
        """What tools/search finds."""
        return self._handlers.registry.searched(self._toolset)

    def largest_request(self) -> int:
        """The largest request that a tool of the edge declares, in bytes."""
        return self._handlers.registry.view(None).max_request_bytes

    @property
    def search(self) -> SearchMethods:
        """The search methods."""
        return self._handlers.search

    def _actor(self, ctx: Context) -> Actor:
        """The identified caller of an HTTP request; else the default."""
        found = getattr(ctx.request, "actor", None)
        return found if isinstance(found, Actor) else self._handlers.default_actor

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        listed = self.view.tools.get(name)
        return None if listed is None else listed.descriptor.input_schema

    async def _list_tools(self, ctx: Context, params: ListToolsParams) -> types.ListToolsResult:
        search = self._handlers.search
        if params.query is not None and search.available:
            query = SearchParams(query=params.query, cursor=params.cursor)
            return await search.tools(self._actor(ctx), self.searched, query)
        return self._handlers.pages.tools(self._actor(ctx), self.view, params.cursor)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        called = ctx.request if isinstance(ctx.request, Called) else None
        # Of a call that the fast way made only the rendering is left.
        served = called.served if called is not None else None
        if served is None:
            served = await self._run_tool(ctx, params, called.target if called else None)
        if served.reply.input_required is not None:
            return request_input(ctx, served.reply.input_required)
        return tool_result(served.reply.decoded())

    async def _run_tool(
        self, ctx: Context, params: types.CallToolRequestParams, target: Target | None
    ) -> Served:
        calls, arguments = self._handlers.calls, params.arguments or {}
        if target is None:  # stdio has no policy before this one
            target = calls.resolver.target(self.view, params.name, arguments)
        async with ForwardedEvents(sending(ctx)) as on_event:
            return await calls.call(
                ToolRequest(
                    self._actor(ctx), target, arguments,
                    capabilities=client_capabilities(ctx), input_responses=dump_responses(params),
                    state=params.request_state, on_event=on_event,
                )
            )  # fmt: skip

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
        return await self._handlers.resources.read(
            self._actor(ctx), self.view, str(params.uri), revision=ctx.protocol_version
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
        """Accept without effect: a stateless edge keeps nothing between requests.

        Clients follow changes by `subscriptions/listen` of revision 2026-07-28.
        """
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


def sending(ctx: Context) -> SendEvent:
    """Sends an event by the SDK's session of a request."""

    async def send(event: ToolEvent) -> None:
        if event.kind == "progress":
            await ctx.session.report_progress(event.progress, event.total, event.message)
        else:
            # Deprecated in 2026-07-28, where it is sent only to a request that asked for it.
            await ctx.session.send_log_message(
                event.level, log_data(event), event.logger, related_request_id=ctx.request_id
            )

    return send


def client_capabilities(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...]:
    """Names of the capabilities that the client declared, sorted."""
    return capability_names(ctx.session.client_capabilities)


def capability_names(declared: types.ClientCapabilities | None) -> tuple[str, ...]:
    """Names of declared capabilities, sorted."""
    if declared is None:
        return ()
    return tuple(sorted(declared.model_dump(by_alias=True, exclude_none=True)))


def dump_responses(params: types.CallToolRequestParams) -> dict[str, Any] | None:
    """The client's answers as JSON values."""
    if params.input_responses is None:
        return None
    dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    responses: dict[str, Any] = dumped["inputResponses"]
    return responses


def request_input(
    ctx: ServerRequestContext[Any, Any], required: InputRequired
) -> types.InputRequiredResult | types.CallToolResult:
    """A request for input; an error result where the client cannot give it."""
    able = client_capabilities(ctx)
    needs = {_NEEDS.get(str(r.get("method")), "?") for r in required.requests.values()}
    if ctx.protocol_version < FIRST_REVISION or not needs <= set(able):
        lacking = ", ".join(sorted(needs - set(able))) or f"revision {FIRST_REVISION}"
        message = f"The tool needs input from the client, which lacks: {lacking}."
        return tool_result(failed_reply(Fault(ErrorCode.INVALID_ARGUMENT, message)))
    return types.InputRequiredResult.model_validate(
        {"inputRequests": required.requests or None, "requestState": required.state}
    )


def _guarded(
    handler: Callable[[Context, P], Awaitable[R]],
) -> Callable[[Context, P], Awaitable[R]]:
    """Raise MCP errors only: the SDK would show the text of any other exception to the client."""

    @functools.wraps(handler)
    async def guarded(ctx: Context, params: P) -> R:
        try:
            return await handler(ctx, params)
        except Exception as error:
            raise shown_error(error, ctx.method) from None

    return guarded


class ListChanges:
    """Publishes changes; `handler` serves the method.

    Attributes:
        on_change: called as well, for a client of a revision without that method.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._published = InMemorySubscriptionBus()
        self._tasks: set[asyncio.Task[None]] = set()
        self.handler = ListenHandler(self._published)

    def notify(self) -> None:
        """Tell every listening client that tools, prompts and resources have changed."""
        log.info("the lists of tools, prompts and resources have changed")
        self.on_change()
        task = asyncio.get_running_loop().create_task(self._publish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End the open streams: they would hold the server's shutdown for its whole grace time."""
        self.handler.close()

    async def _publish(self) -> None:
        events: tuple[Any, ...] = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
        for event in events:
            await self._published.publish(event)


class OwnWorker:
    """Finds out whether a request is from a worker of this bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def refuse(self, ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
        """Middleware that refuses such a request. Raises MCPError."""
        worker = ctx.meta.get(ATTACHED_BY) if isinstance(ctx.meta, Mapping) else None
        if isinstance(worker, str) and await self._is_ours(worker):
            raise MCPError(
                INVALID_REQUEST,
                "This is the searchbus that asks. Remove it from its own attached servers.",
                {ATTACHED_BY: worker},
            )
        return await call_next(ctx)

    async def _is_ours(self, worker: str) -> bool:
        try:
            subject = self._bus.subjects.ping(_SERVICE, worker)
            await self._bus.request(subject, Ping(), Pong, service=_SERVICE, timeout_s=_TIMEOUT_S)
        except (Fault, ValueError):  # nobody of that id; or an id that no subject can have
            return False
        return True

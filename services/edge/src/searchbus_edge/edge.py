"""The edge as a whole: directory, catalogue, one server an endpoint, listeners for changes."""

from __future__ import annotations

import asyncio
import functools
import logging
from contextlib import AsyncExitStack
from typing import Any

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.server.transport_security import TransportSecuritySettings

from searchbus_bus import Bus, Directory, KeyValue, Worker
from searchbus_contracts import Actor, Fault
from searchbus_contracts.headers import bare_role

from .auth.setup import open_gate
from .calls import Caller
from .catalogue import Catalogue, visible
from .composites.connector import Connector, build_worker
from .composites.ids import Ids
from .composites.sources import Documents, Web
from .cursors import Cursors
from .discovery import Discovery
from .guard import McpGuard
from .keys import load_key
from .lazy import LAZY_TOOLS, LazyTools
from .limits import LocalLimiter, SharedLimiter
from .server import EVERYBODY, EndpointServer
from .settings import EdgeSettings
from .telemetry import Tracing

__all__ = ["Edge"]

log = logging.getLogger("searchbus.edge")


class Edge:
    """Owns what the endpoints share. Use as an asynchronous context manager."""

    def __init__(self, bus: Bus, settings: EdgeSettings) -> None:
        self.settings = settings
        self.bus = bus
        self.directory = Directory(bus, grace_s=settings.grace_s, on_change=self._changed)
        given = settings.state_key.get_secret_value() if settings.state_key else None
        key = load_key(given, settings.data_dir)
        self._cursors = Cursors(key)
        self._ids = Ids(key)
        self._limits: KeyValue | None = None
        search_rate_per_s, call_rate_per_s, abuse_rate_per_s = settings.rates_per_s
        # Each process for itself, before anything is read: this one must cost nothing.
        self._abuse = LocalLimiter(abuse_rate_per_s, settings.abuse_burst)
        self.base_url = settings.public_url or ""
        self.discovery = Discovery(
            bus,
            self.directory,
            self._cursors,
            self._limiter("search", search_rate_per_s, settings.search_burst),
            enabled=settings.search,
        )
        self.catalogue = Catalogue(
            self.directory,
            settings.toolset_order,
            own=LAZY_TOOLS,
            own_offered=lambda: self.discovery.available,
            pinned=settings.pinned_tools,
        )
        self._caller = Caller(
            bus,
            timeout_cap_s=settings.call_timeout_cap_s,
            lazy=LazyTools(self.discovery),
            everything=lambda: self.catalogue.view(None),
            audit_arguments=settings.audit_arguments,
            limiter=self._limiter("call", call_rate_per_s, settings.call_burst),
            costly=self._limiter(
                "costly", settings.costly_rate_per_s, settings.costly_burst, fail_closed=True
            ),
        )
        self._changes = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._changes)
        self._state_boundary = RequestStateBoundary(
            RequestStateSecurity(keys=[key.hex()]), default_audience="searchbus"
        )
        self.documents = Documents(
            bus, self._ids, present=self.directory.knows, base_url=lambda: self.base_url
        )
        self.gate, self._jwks = open_gate(settings, EVERYBODY)
        self._tracing = Tracing(trust=settings.trusts_traces)
        self._servers: dict[str | None, EndpointServer] = {}
        self._endpoints: dict[str | None, McpGuard] = {}
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def _limiter(
        self, name: str, rate_per_s: float, burst: int, *, fail_closed: bool = False
    ) -> SharedLimiter:
        return SharedLimiter(name, lambda: self._limits, rate_per_s, burst, fail_closed=fail_closed)

    async def __aenter__(self) -> Edge:
        try:
            self._limits = await self.bus.key_value("limits", ttl_s=3600.0, max_bytes=16 * 2**20)
        except Fault as fault:
            log.warning("%s; each edge counts its callers by itself", fault.failure.message)
        if self._jwks is not None:
            self._stack.push_async_callback(self._jwks.close)
        await self.directory.start()
        self._stack.push_async_callback(self.directory.close)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def server(self, toolset: str | None = None) -> EndpointServer:
        """The server of an endpoint."""
        server = self._servers.get(toolset)
        if server is None:
            server = self._servers[toolset] = EndpointServer(
                self.bus,
                self.catalogue,
                self._caller,
                self.discovery,
                self._cursors,
                self._listen,
                state_boundary=self._state_boundary,
                tracing=self._tracing,
                toolset=toolset,
                page_size=self.settings.page_size,
                list_ttl_ms=self.settings.list_ttl_ms,
            )
        return server

    async def endpoint(self, toolset: str | None) -> McpGuard | None:
        """The ASGI application of an endpoint; None for a toolset that nobody offers.

        Endpoints are opened when first asked for: a new worker's toolset needs no restart.
        """
        if toolset is not None and toolset not in self.catalogue.toolsets:
            return None
        async with self._opening:
            app = self._endpoints.get(toolset)
            if app is None:
                manager = StreamableHTTPSessionManager(
                    app=self.server(toolset).mcp,
                    stateless=True,
                    # JSON responses would drop progress and miss a client's disconnect.
                    json_response=False,
                    security_settings=TransportSecuritySettings(
                        allowed_hosts=self.settings.hosts, allowed_origins=self.settings.origins
                    ),
                    max_request_body_size=self.settings.body_limit_bytes,
                )
                await self._run(manager)
                app = self._endpoints[toolset] = McpGuard(
                    manager.handle_request,
                    body_limit_bytes=self.settings.body_limit_bytes,
                    gate=self.gate,
                    abuse=self._abuse,
                    tracing=self._tracing,
                    missing_role=functools.partial(self._missing_role, toolset),
                )
        return app

    def connector(self) -> Worker:
        """The composites, to be served on the bus like any worker."""
        web = Web(self.bus, self._ids, lambda: self.catalogue.view(None))
        weights = self.settings.connector_sources
        sources = [(source, weights.get(source.name, 0.0)) for source in (self.documents, web)]
        return build_worker(Connector(sources))

    async def ready(self) -> bool:
        """Whether every required service has a worker."""
        return all(self.directory.present(name) for name in self.settings.required_services)

    def _missing_role(self, toolset: str | None, tool: str, actor: Actor) -> str | None:
        """A role that the actor lacks for a tool of an endpoint."""
        listed = self.catalogue.view(toolset).tools.get(tool) if tool else None
        if listed is None or visible(actor, listed.descriptor):
            return None
        required = listed.descriptor.required_roles
        return next((bare_role(role) for role in required if not actor.holds((role,))), None)

    async def end_streams(self) -> None:
        """End the open listen streams: they would hold the server's shutdown for its whole time."""
        self._listen.close()

    async def _run(self, manager: StreamableHTTPSessionManager) -> None:
        """Hold a manager open in a task of its own.

        Its task group must be entered and left by the same task, and requests come in many.
        """
        started = asyncio.Event()
        stop = asyncio.Event()

        async def hold() -> None:
            async with manager.run():
                started.set()
                await stop.wait()

        task = asyncio.get_running_loop().create_task(hold())

        async def end() -> None:
            stop.set()
            await asyncio.wait([task], timeout=5)

        self._stack.push_async_callback(end)
        await started.wait()

    def _changed(self) -> None:
        log.info(
            "the catalogue changed: %s",
            {catalog.service: len(catalog.tools) for catalog in self.directory.catalogs},
        )

        async def tell() -> None:
            events: tuple[Any, ...] = (
                ToolsListChanged(),
                PromptsListChanged(),
                ResourcesListChanged(),
            )
            for event in events:
                await self._changes.publish(event)

        task = asyncio.get_running_loop().create_task(tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

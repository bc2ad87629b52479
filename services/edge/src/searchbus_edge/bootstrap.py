"""Builds the edge: every part in dependency order, each replaceable by keyword.

async with open_edge(bus, settings, default_actor=reader) as edge:
    app = build_app(edge, health)
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from searchbus_bus import Bus, Directory, KeyValue
from searchbus_contracts import Actor
from searchbus_runtime.pins import PinFile

from .auth.authenticator import Authenticator
from .auth.identity import ANONYMOUS
from .auth.static_keys import KeyFile, StaticKeys
from .catalog.changes import ListChanges
from .catalog.cursors import Cursors
from .catalog.pages import Pages
from .catalog.pinning import Pinning
from .catalog.prompts import Prompts
from .catalog.registry import Registry
from .catalog.resources import Resources
from .composites.connector import Connector, build_worker
from .composites.documents import Documents
from .composites.ids import Ids
from .composites.lazy import add_lazy_tools
from .composites.own_worker import OwnWorker
from .composites.similarity import Similarity
from .composites.sources import Source
from .composites.web import Web
from .edge import ASGI, Edge
from .http.admission import HttpPolicy
from .http.body import BodyLimits
from .http.head import AddressRules
from .interfaces.api.app import SEGMENTS, HttpApi
from .interfaces.api.openapi import OpenApi
from .interfaces.api.tool_list import ToolList
from .interfaces.calls import HttpCalls
from .interfaces.compat.app import INTERFACES, OtherApis
from .mcp.endpoint import Endpoints
from .mcp.running import RunningRequests
from .mcp.servers import EndpointServers, Handlers
from .search.finder import Finder
from .search.lazy import LazyTools, lazy_tools
from .search.methods import SearchMethods
from .settings import EdgeSettings
from .state_key import load_key
from .tools.audit import AuditLog
from .tools.call import ToolCalls
from .tools.limits import LocalLimiter, SharedLimiter
from .tools.telemetry import Tracing

if TYPE_CHECKING:
    from .auth.jwks import Jwks

__all__ = ["open_edge"]


@asynccontextmanager
async def open_edge(
    bus: Bus,
    settings: EdgeSettings,
    *,
    base_url: str | None = None,
    default_actor: Actor = ANONYMOUS,
    jwks: Jwks | None = None,
    authenticator: Authenticator | None = None,
    store: KeyValue | None = None,
    sources: Sequence[Source] | None = None,
    tracing: Tracing | None = None,
    clock: Callable[[], float] = time.time,
    declared: Mapping[str, str] | None = None,
    expected: Collection[str] | None = None,
) -> AsyncIterator[Edge]:
    """Build the edge and follow the services on the bus; leaving the context ends both.

    Args:
        base_url: where clients reach the edge; by default of the settings' host and port.
        default_actor: the caller where there is no access control, and on stdio.
        jwks: the keys of tokens; by default those of the settings ISSUER and JWKS_URL.
        authenticator: by default what the setting AUTH says.
        store: holds the counts of shared limits; by default the bus's bucket `limits`.
        sources: of the composites; by default documents and web.
        tracing: by default what the setting TRUST_TRACES says.
        clock: seconds of the epoch, for credentials and shared limits.
        declared: toolset → the service that declares it; no other service may offer it.
        expected: services that stay listed while they are away; by default REQUIRED_SERVICES.
    """
    base_url = base_url or settings.base_url(settings.port)
    key = _state_key(settings)
    bus.transit.total_bytes = settings.large_answer_bytes
    bus.transit.caller_bytes = settings.large_answer_bytes_per_caller
    async with AsyncExitStack() as stack:
        if authenticator is None:
            if jwks is None and settings.mode == "jwt":
                # Imported here, as the verifier below: few stacks check tokens.
                from .auth.jwks import Jwks

                jwks = Jwks(settings.issuer or "", settings.jwks_url)
                stack.push_async_callback(jwks.close)
            authenticator = _authenticator(settings, base_url, default_actor, jwks, clock)
        tracing = tracing or Tracing(trust=settings.trusts_traces)
        if store is None:
            store = await bus.key_value("limits", ttl_s=3600.0, max_bytes=16 * 2**20)
        limits = _Limits(settings, store, clock, edges=lambda: directory.count(worker.service))

        changes = ListChanges()
        directory = Directory(
            bus,
            expected=settings.required_services or () if expected is None else expected,
            grace_s=settings.grace_s,
            lost_grace_s=settings.lost_grace_s,
            on_change=changes.notify,
            prepare=lambda listing: registry.prepare(listing),
            declared=declared,
        )
        cursors = Cursors(key)
        finder = Finder(bus, directory, cursors, limits.search, enabled=settings.search)
        registry = Registry(
            directory,
            settings.toolset_order,
            own=lazy_tools(settings.call_tool_name),
            own_offered=lambda: finder.available,
            pinned=settings.pinned_tools,
            pinning=_pinning(settings),
        )
        audit = AuditLog(arguments=settings.audit_arguments)
        stack.callback(audit.close)
        calls = ToolCalls(
            bus,
            registry,
            LazyTools(finder),
            limiter=limits.call,
            costly=limits.costly,
            audit=audit,
            timeout_cap_s=settings.call_timeout_cap_s,
        )
        search = SearchMethods(finder)
        pages = Pages(cursors, page_size=settings.page_size)
        # State that a client carries for a tool comes back unchanged or not at all.
        state_boundary = RequestStateBoundary(
            RequestStateSecurity(keys=[key.hex()]), default_audience="searchbus"
        )
        servers = EndpointServers(
            Handlers(
                registry=registry,
                calls=calls,
                pages=pages,
                resources=Resources(bus, cursors, page_size=settings.page_size),
                prompts=Prompts(bus),
                search=search,
                listen=changes.handler,
                middleware=(
                    tracing.middleware,
                    OwnWorker(bus).refuse,
                    search.declare,
                    state_boundary,
                ),
                default_actor=default_actor,
                list_ttl_ms=settings.list_ttl_ms,
            )
        )

        ids = Ids(key)
        documents = Documents(bus, ids, directory, base_url=base_url)
        similarity = Similarity(bus, directory)
        if sources is None:
            sources = (documents, Web(calls, ids, registry, similarity))
        weights = settings.connector_sources
        weighted = [(source, weights.get(source.name, 0.0)) for source in sources]
        connector = Connector(weighted, similarity)
        worker = build_worker(connector)
        if settings.search:
            add_lazy_tools(worker, calls)

        await directory.start()
        stack.push_async_callback(directory.close)
        running = RunningRequests(bus, key, service=worker.service)
        await running.start()
        stack.push_async_callback(running.close)
        policy = HttpPolicy(
            authenticator=authenticator,
            abuse=limits.abuse,
            tracing=tracing,
            addresses=AddressRules(settings.hosts, settings.origins),
            limits=BodyLimits(
                settings.body_limit_bytes,
                settings.call_limit_bytes,
                timeout_s=settings.body_timeout_s,
            ),
        )
        http_calls = HttpCalls(registry, calls, policy)
        interfaces: dict[str, ASGI] = {}
        if "api" in settings.http_interfaces:
            openapi = OpenApi(
                server_url=settings.public_url or "/", signed_in=not authenticator.open
            )
            api = HttpApi(http_calls, ToolList(http_calls, pages, search), openapi)
            interfaces |= dict.fromkeys(SEGMENTS, api)
        others = OtherApis(http_calls, clock=clock)
        interfaces |= {name: others for name in INTERFACES if name in settings.http_interfaces}
        yield Edge(
            settings=settings,
            bus=bus,
            directory=directory,
            registry=registry,
            servers=servers,
            endpoints=Endpoints(registry, servers, calls, policy, running),
            policy=policy,
            http_calls=http_calls,
            interfaces=interfaces,
            authenticator=authenticator,
            documents=documents,
            connector=worker,
            changes=changes,
            audit=audit,
        )


class _Limits:
    """The four limits of the settings."""

    def __init__(
        self,
        settings: EdgeSettings,
        store: KeyValue,
        clock: Callable[[], float],
        edges: Callable[[], int],
    ) -> None:
        def shared(
            name: str, rate_per_s: float, burst: int, fail_closed: bool = False
        ) -> SharedLimiter:
            return SharedLimiter(
                name, store, rate_per_s, burst, fail_closed=fail_closed, clock=clock, edges=edges
            )

        search_rate_per_s, call_rate_per_s, abuse_rate_per_s = settings.rates_per_s
        self.search = shared("search", search_rate_per_s, settings.search_burst)
        self.call = shared("call", call_rate_per_s, settings.call_burst)
        self.costly = shared(
            "costly", settings.costly_rate_per_s, settings.costly_burst, fail_closed=True
        )
        # Each edge counts on its own: this limit applies before a request is read.
        self.abuse = LocalLimiter(abuse_rate_per_s, settings.abuse_burst)


def _pinning(settings: EdgeSettings) -> Pinning | None:
    if not settings.hold_changes or settings.pin_file is None:
        return None
    return Pinning(PinFile(settings.pin_file), settings.hold_changes)


def _state_key(settings: EdgeSettings) -> bytes:
    key = settings.state_key
    return load_key(key.get_secret_value() if key else None, settings.data_dir)


def _authenticator(
    settings: EdgeSettings,
    base_url: str,
    default_actor: Actor,
    jwks: Jwks | None,
    clock: Callable[[], float],
) -> Authenticator:
    """What the setting AUTH says."""
    tokens, keys = None, None
    if settings.mode == "static":
        assert settings.key_file is not None
        keys = StaticKeys(KeyFile(settings.key_file), clock=clock)
    if settings.mode == "jwt":
        from .auth.tokens import TokenVerifier

        assert settings.issuer is not None
        assert jwks is not None
        tokens = TokenVerifier(jwks, settings.issuer, role_paths=settings.role_paths, clock=clock)
    return Authenticator(
        default_actor=default_actor,
        tokens=tokens,
        keys=keys,
        resource_url=base_url,
        audiences=settings.audiences,
    )

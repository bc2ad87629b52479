"""Builds the edge: every part in dependency order, some replaceable by keyword."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from searchbus_bus import NEEDED_TIMEOUT_S, Bus, Directory, KeyValue, Worker
from searchbus_contracts import Actor
from searchbus_runtime.shared_file import SharedFile

from .auth.authenticator import Authenticator
from .auth.identity import ANONYMOUS
from .auth.signing import Cursors, StateCodec, StateKey, load_key
from .auth.static_keys import KeyFile, StaticKeys
from .catalog.pinning import Pinning
from .catalog.prompts import Prompts
from .catalog.registry import Registry
from .catalog.render import Pages
from .catalog.resources import Resources
from .composites.connector import Connector
from .composites.documents import Documents
from .composites.many import Many
from .composites.passages import Similarity
from .composites.sources import Ids, Source
from .composites.web import Web
from .http.body import BodyLimits
from .interfaces.api import SEGMENTS, HttpApi
from .interfaces.calls import HttpCalls
from .interfaces.console.app import Console
from .interfaces.read import read_app
from .interfaces.searxng import searxng_app
from .interfaces.tavily import tavily_app
from .lending import Lending
from .mcp.endpoint import Endpoints
from .mcp.extensions import Extensions, open_extensions
from .mcp.running import RunningRequests
from .mcp.servers import EndpointServers, ListChanges, actor_of, refuse_own
from .plans.running import Plans
from .search.finder import Finder
from .search.lazy import Lazy, own_tools
from .search.methods import SearchMethods
from .settings import EdgeSettings, check_state_key
from .sharing import pinning, shared_files
from .tools.admission import AddressRules, HttpPolicy
from .tools.audit import AuditLog, CountedReads
from .tools.budgets import Budgets
from .tools.call import ToolCalls
from .tools.limits import LocalLimiter, SharedLimiter
from .tools.resolve import Resolver
from .tools.telemetry import Tracing

if TYPE_CHECKING:
    from .auth.tokens import Jwks

ASGI = Callable[[Any, Any, Any], Awaitable[None]]
"""An application: takes the scope, receive and send of an HTTP request."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The parts of a running edge, for HTTP, stdio and tests.

    Args:
        interfaces: those that are served, by the first segments of their paths.
        read: reads documents and others' prompts and resources for callers.
        connector: the composites, to be served on the bus like any worker.
        lending: serves toolsets on the buses of other tenants.
    """

    settings: EdgeSettings
    bus: Bus
    directory: Directory
    registry: Registry
    servers: EndpointServers
    endpoints: Endpoints
    policy: HttpPolicy
    http_calls: HttpCalls
    interfaces: Mapping[str, ASGI]
    authenticator: Authenticator
    read: CountedReads
    connector: Worker
    changes: ListChanges
    audit: AuditLog
    lending: Lending
    console: Console | None = None
    shared: Sequence[SharedFile] = ()

    async def ready(self) -> bool:
        """Whether catalogues and shared files were read; a service that is away is no reason."""
        return self.directory.discovered and all(file.known for file in self.shared)

    def away(self) -> dict[str, str]:
        """The services that are away, and since when."""
        return {absence.service: str(absence) for absence in self.directory.absences}

    async def end_streams(self) -> None:
        """End the open streams: they would hold the server's shutdown for its whole time."""
        self.changes.close()
        if self.console is not None:
            self.console.close()

    def end_calls(self) -> None:
        """Leave tasks to another edge, and let all other calls end as `unavailable`: the server
        would cut what runs for longer, without an answer."""
        if (tasks := self.servers.extensions.tasks) is not None:
            tasks.leave()
        self.bus.end_requests()


@asynccontextmanager
async def open_edge(
    bus: Bus,
    settings: EdgeSettings,
    *,
    base_url: str | None = None,
    default_actor: Actor = ANONYMOUS,
    jwks: Jwks | None = None,
    store: KeyValue | None = None,
    clock: Callable[[], float] = time.time,
    declared: Mapping[str, str] | None = None,
    expected: Collection[str] | None = None,
) -> AsyncIterator[Edge]:
    """Build the edge and follow the services on the bus; leaving the context ends both.

    Args:
        base_url: where clients reach the edge; by default of the settings' host and port.
        default_actor: the caller where there is no access control, and on stdio.
        jwks: the keys of tokens; by default those of the settings ISSUER and JWKS_URL.
        store: holds the counts of shared limits; by default the bus's bucket `limits`.
        clock: seconds of the epoch, for credentials and shared limits.
        declared: toolset → the service that declares it; no other service may offer it.
        expected: services that stay listed while they are away; by default REQUIRED_SERVICES.
    """
    base_url = base_url or settings.base_url(settings.port)
    key = settings.secret("state_key", check_state_key) or load_key(settings.data_dir)
    bus.transit.total_bytes = settings.large_answer_bytes
    bus.transit.caller_bytes = settings.large_answer_bytes_per_caller
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(shared_files(bus, settings))
        if jwks is None and settings.mode == "jwt":
            # Imported here, as the verifier below: few stacks check tokens.
            from .auth.tokens import Jwks

            jwks = Jwks(settings.issuer or "", settings.jwks_url)
            stack.push_async_callback(jwks.close)
        authenticator = _authenticator(settings, base_url, default_actor, jwks, clock)
        tracing = Tracing(trust=settings.trusts_traces)
        if store is None:
            store = await bus.key_value(
                "limits", ttl_s=3600.0, max_bytes=16 * 2**20, timeout_s=NEEDED_TIMEOUT_S
            )
        held = pinning(settings, shared)
        budgets = None
        if settings.daily_budgets:
            spent = await bus.key_value(
                "budgets", ttl_s=172_800.0, max_bytes=16 * 2**20, timeout_s=NEEDED_TIMEOUT_S,
                on_disk=settings.share_files,
            )  # fmt: skip
            budgets = Budgets(settings.daily_budgets, spent, clock=clock)
            await stack.enter_async_context(budgets.keeping())
        tools = _Tools(bus, settings, key, store, clock, declared, expected, held, budgets)
        stack.callback(tools.audit.close)
        _add_composites(tools, base_url)
        await tools.directory.start()
        stack.push_async_callback(tools.directory.close)
        running = RunningRequests(bus, key, service=tools.worker.service)
        await running.start()
        stack.push_async_callback(running.close)
        policy = HttpPolicy(
            authenticator=authenticator,
            abuse=tools.abuse,
            tracing=tracing,
            addresses=AddressRules(settings.hosts, settings.origins),
            limits=BodyLimits(
                settings.body_limit_bytes,
                settings.call_limit_bytes,
                timeout_s=settings.body_timeout_s,
            ),
            audit=tools.audit,
        )
        extensions = await stack.enter_async_context(
            open_extensions(bus, settings, tools.calls, tools.registry, key, clock)
        )
        servers = _servers(tools, tracing, default_actor, extensions)
        lending = Lending(tools.registry, tools.calls, settings, policy)
        stack.push_async_callback(lending.drain, settings.drain_timeout_s)
        http_calls = HttpCalls(tools.registry, tools.calls, policy)
        signed_in = not authenticator.open
        interfaces = _interfaces(tools, http_calls, signed_in=signed_in)
        console = None
        if "console" in settings.http_interfaces:
            console = interfaces["console"] = Console(
                bus, tools.directory, http_calls, tools.finder, tools.prompts, tools.resources,
                tools.read, settings, key, base_url=base_url, signed_in=signed_in,
            )  # fmt: skip
        yield Edge(
            settings=settings,
            bus=bus,
            directory=tools.directory,
            registry=tools.registry,
            servers=servers,
            endpoints=Endpoints(servers, policy, running),
            policy=policy,
            http_calls=http_calls,
            interfaces=interfaces,
            console=console,
            authenticator=authenticator,
            read=tools.read,
            connector=tools.worker,
            changes=tools.changes,
            audit=tools.audit,
            lending=lending,
            shared=tuple(shared.values()),
        )


class _Tools:
    """What finds and calls tools, for every interface."""

    def __init__(
        self,
        bus: Bus,
        settings: EdgeSettings,
        key: StateKey,
        store: KeyValue,
        clock: Callable[[], float],
        declared: Mapping[str, str] | None,
        expected: Collection[str] | None,
        pinning: Pinning | None,
        budgets: Budgets | None,
    ) -> None:
        self.bus, self.settings, self.key, self.clock = bus, settings, key, clock
        self.worker = Worker(
            "connector", max_in_flight=256, description="One question to documents and the web."
        )
        self.changes = ListChanges()
        self.directory = Directory(
            bus,
            expected=settings.required_services or () if expected is None else expected,
            grace_s=settings.grace_s,
            lost_grace_s=settings.lost_grace_s,
            on_change=self.changes.notify,
            prepare=lambda listing: self.registry.prepare(listing),
            declared=declared,
        )
        edges = partial(self.directory.count, self.worker.service)
        shared = partial(SharedLimiter, store=store, clock=clock, edges=edges)
        search_per_s, call_per_s, abuse_per_s = settings.rates_per_s
        searches = shared("search", rate_per_s=search_per_s, burst=settings.search_burst)
        calls = shared("call", rate_per_s=call_per_s, burst=settings.call_burst)
        costly = shared(
            "costly", rate_per_s=settings.costly_rate_per_s, burst=settings.costly_burst,
            fail_closed=True,
        )  # fmt: skip
        # Each edge counts on its own: this limit applies before a request is read.
        self.abuse = LocalLimiter(abuse_per_s, settings.abuse_burst)
        cursors = Cursors(key)
        finder = Finder(bus, self.directory, cursors, searches, enabled=settings.search)
        self.finder = finder
        self.search = SearchMethods(finder)
        self.pages = Pages(cursors, page_size=settings.page_size)
        self.audit = AuditLog(arguments=settings.audit_arguments)
        self.read = CountedReads(bus, calls, self.audit, budgets)
        self.resources = Resources(bus, cursors, self.read, page_size=settings.page_size)
        self.prompts = Prompts(bus, self.read)
        self.registry = Registry(
            self.directory,
            settings.toolset_order,
            own=own_tools(settings.call_tool_name),
            own_offered=finder.offered,
            pinned=settings.pinned_tools,
            pinning=pinning,
            joined=settings.joined_endpoints,
        )
        self.calls = ToolCalls(
            bus,
            Resolver(self.registry),
            self.worker,
            limiter=calls,
            costly=costly,
            audit=self.audit,
            timeout_cap_s=settings.call_timeout_cap_s,
            budgets=budgets,
        )
        if settings.search:
            self.worker.add(Lazy(finder, self.registry, self.calls))


def _add_composites(tools: _Tools, base_url: str) -> None:
    """Add the composites to the edge's own worker."""
    ids = Ids(tools.key)
    similarity = Similarity(tools.bus, tools.directory)
    documents = Documents(tools.bus, ids, tools.directory, base_url=base_url)
    sources: tuple[Source, ...] = (documents, Web(tools.calls, ids, tools.registry, similarity))
    weights = tools.settings.connector_sources
    weighted = [(source, weights.get(source.name, 0.0)) for source in sources]
    plans = Plans(tools.registry, tools.calls)
    tools.worker.add(Connector(weighted, similarity), Many(weighted), plans)


def _servers(
    tools: _Tools, tracing: Tracing, default_actor: Actor, extensions: Extensions
) -> EndpointServers:
    # State that a client carries for a tool comes back unchanged, from the same caller, or not at
    # all. By default the SDK binds it to a token of its own, which nobody has here.
    security = RequestStateSecurity(
        codec=StateCodec(tools.key),
        bind_principal=lambda ctx: actor_of(ctx, default_actor).subject,
    )
    state_boundary = RequestStateBoundary(security, default_audience="searchbus")
    refuse = partial(refuse_own, tools.bus)
    return EndpointServers(
        registry=tools.registry,
        calls=tools.calls,
        pages=tools.pages,
        resources=tools.resources,
        prompts=tools.prompts,
        search=tools.search,
        extensions=extensions,
        listen=tools.changes.listen,
        middleware=(tracing.middleware, refuse, tools.search.declare, state_boundary),
        default_actor=default_actor,
        list_ttl_ms=tools.settings.list_ttl_ms,
    )


def _interfaces(tools: _Tools, http_calls: HttpCalls, *, signed_in: bool) -> dict[str, ASGI]:
    """The interfaces of plain HTTP, without the console, by the first segments of their paths."""
    found: dict[str, ASGI] = {}
    wanted, url = tools.settings.http_interfaces, tools.settings.public_url or "/"
    if "api" in wanted:
        api = HttpApi(http_calls, tools.pages, tools.search, server_url=url, signed_in=signed_in)
        found |= dict.fromkeys(SEGMENTS, api)
    web_apps: dict[str, Callable[[HttpCalls], ASGI]] = {
        "searxng": searxng_app,
        "tavily": partial(tavily_app, clock=tools.clock),
        "read": read_app,
    }
    for name, make in web_apps.items():
        if name in wanted:
            found[name] = make(http_calls)
    return found


def _authenticator(
    settings: EdgeSettings,
    base_url: str,
    default_actor: Actor,
    jwks: Jwks | None,
    clock: Callable[[], float],
) -> Authenticator:
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

"""An edge that authenticates its callers: a provider on loopback, tools that need roles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from searchbus_bus import Call, MemoryBroker, Worker
from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import TextContent, ToolCall, ToolDescriptor, ToolReply
from searchbus_edge.app import build_app
from searchbus_edge.auth.tokens import Jwks
from searchbus_edge.bootstrap import Edge, open_edge
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer
from searchbus_testing import NatsServer, messages, serve

from .locked_bus import LockedBus, write_locked_configuration

RESOURCE = "https://search.example.org"
KEYS = {
    "RS256": RSAKey.generate_key(2048, {"kid": "rsa"}, private=True),
    "ES256": ECKey.generate_key("P-256", {"kid": "ec"}, private=True),
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "okp"}, private=True),
}
"""Generated once: RSA keys take long."""


@dataclass
class Provider:
    """A small identity provider: metadata, keys, and tokens made to order."""

    url: str = ""
    keys: list[Any] = field(default_factory=lambda: list(KEYS.values()))
    fetched: int = 0
    down: bool = False

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[
            Route("/.well-known/openid-configuration", self.metadata), Route("/jwks", self.jwks)
        ])  # fmt: skip

    async def metadata(self, request: Request) -> Response:
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})

    async def jwks(self, request: Request) -> Response:
        self.fetched += 1
        if self.down:
            return Response("down", 503)
        return JSONResponse({"keys": [key.as_dict(private=False) for key in self.keys]})

    def token(
        self,
        *roles: str,
        algorithm: str = "RS256",
        key: Any = None,
        header: Any = None,
        **claims: Any,
    ) -> str:
        """A valid token with the given changes; `None` removes a claim."""
        now = int(time.time())
        found = {
            "iss": self.url, "sub": "alice", "aud": f"{RESOURCE}/mcp", "iat": now, "exp": now + 300,
            "realm_access": {"roles": list(roles)},
        } | claims  # fmt: skip
        key = key or KEYS[algorithm]
        head = {"alg": algorithm, "kid": key.kid, "typ": "at+jwt"} | (header or {})
        kept = {k: v for k, v in found.items() if v is not None}
        return jwt.encode(
            {k: v for k, v in head.items() if v is not None}, kept, key, algorithms=[algorithm]
        )


def worker() -> Worker:
    """Tools for everybody, for one role, for two."""
    worker = Worker("office")
    for name, roles in (
        ("open_tool", ()),
        ("role_tool", ("ROLE_MCP-WEB-SEARCH",)),
        ("two_tool", ("A", "B")),
    ):

        async def reply(call: Call, request: ToolCall, name: str = name) -> ToolReply:
            text = f"{name} for {call.actor.subject} with {' '.join(call.actor.roles)}"
            return ToolReply(content=(TextContent(text=text),))

        worker.add_tool(
            ToolDescriptor(name=name, toolset="office", description=f"The {name}.",
                           input_schema={"type": "object"}, required_roles=roles),
            reply,
        )  # fmt: skip
    worker.add_tool(
        ToolDescriptor(name="paid_tool", toolset="office", description="Costs money.", costly=True,
                       input_schema={"type": "object"}, required_roles=("PAYER",)),
        reply,
    )  # fmt: skip

    async def wait(call: Call, request: ToolCall) -> ToolReply:
        await asyncio.sleep(call.remaining_s)
        return ToolReply()

    worker.add_tool(
        ToolDescriptor(name="long_tool", toolset="office", description="Takes long.",
                       input_schema={"type": "object"}, required_roles=("PATIENT",),
                       task_after_ms=0),
        wait,
    )  # fmt: skip
    return worker


@dataclass
class Clock:
    """Now, and what a test adds to it."""

    added_s: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.added_s


@dataclass
class Secured:
    """The running edge and its provider.

    Args:
        clock: of the edge; `jwks_clock` is of the provider's keys alone.
    """

    url: str
    edge: Edge
    provider: Provider
    http: httpx.AsyncClient
    store: MemoryKeyValue
    clock: Clock
    jwks_clock: Clock
    broker: MemoryBroker

    async def post(
        self, method: str, token: str | None = None, path: str = "/mcp", **params: Any
    ) -> httpx.Response:
        """One JSON-RPC message."""
        headers = {"Accept": "application/json, text/event-stream"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return await self.http.post(path, json=body, headers=headers)

    async def result(self, method: str, token: str, path: str = "/mcp", **params: Any) -> Any:
        """The result of a message that is accepted."""
        response = await self.post(method, token, path, **params)
        assert response.status_code == 200, response.text
        return messages(response)[-1]


@pytest.fixture
def locked_bus(own_nats_server: Callable[..., NatsServer], tmp_path: Path) -> LockedBus:
    """A server with the accounts and permissions that are shipped."""
    config = tmp_path / "locked.conf"
    bus = write_locked_configuration(config, tmp_path / "js")
    return replace(bus, url=own_nats_server("-c", str(config)).url)


@pytest.fixture
def edge_options() -> dict[str, Any]:
    """Settings that a module's tests have in common."""
    return {}


@pytest.fixture
async def secured(
    request: pytest.FixtureRequest, tmp_path, edge_options: dict[str, Any]
) -> AsyncIterator[Secured]:
    """Settings by indirect parameter; mode jwt by default."""
    provider, broker, clock, jwks_clock = Provider(), MemoryBroker(), Clock(), Clock()
    store = MemoryKeyValue(ttl_s=3600, clock=clock)
    async with AsyncExitStack() as exit_:
        provider.url = await exit_.enter_async_context(serve(provider.app))
        await broker.connect(name="office").serve(worker())
        options = {
            "auth": "jwt",
            "issuer": provider.url,
            "public_url": RESOURCE,
            "data_dir": tmp_path,
        }
        settings = EdgeSettings(**{**options, **edge_options, **getattr(request, "param", {})})
        jwks = Jwks(settings.issuer or "", clock=jwks_clock)
        exit_.push_async_callback(jwks.close)
        edge = await exit_.enter_async_context(
            open_edge(broker.connect(name="edge"), settings, jwks=jwks, store=store, clock=clock)
        )
        server = await HttpServer.start(build_app(edge, Health()))
        url = server.url
        http = await exit_.enter_async_context(httpx.AsyncClient(base_url=url, timeout=60))
        yield Secured(url, edge, provider, http, store, clock, jwks_clock, broker)
        await edge.end_streams()
        await server.stop()


SCHEMAS = {
    "closed": {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
    "texts": {"additionalProperties": {"type": "string"}},
    "names": {"propertyNames": {"maxLength": 2}},
    "lists": {"properties": {"a": {"anyOf": [{"type": "array", "items": {"type": "string"}}]}}},
}


@pytest.fixture
async def port():
    """The port of an open edge, whose tools have one schema each of those that make many errors."""
    broker = MemoryBroker()
    worker = Worker("office")

    async def reply(call, request):
        return ToolReply(content=(TextContent(text="done"),))

    for name, schema in SCHEMAS.items():
        schema = {"type": "object", **schema}
        worker.add_tool(
            ToolDescriptor(name=name, toolset="office", description=".", input_schema=schema), reply
        )
    async with AsyncExitStack() as exit_:
        await broker.connect(name="office").serve(worker)
        edge = await exit_.enter_async_context(
            open_edge(broker.connect(name="edge"), EdgeSettings())
        )
        server = await HttpServer.start(build_app(edge, Health()))
        yield server.port
        await edge.end_streams()
        await server.stop()

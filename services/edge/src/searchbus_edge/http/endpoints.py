"""The HTTP side of each endpoint: the SDK's transport, with the guard in front of it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from ..auth.authenticator import Authenticator
from ..calls.limits import LocalLimiter
from ..calls.telemetry import Tracing
from ..endpoint import EndpointServers
from ..lists.registry import Registry
from .guard import McpGuard

__all__ = ["Endpoints", "HttpPolicy"]


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """Which HTTP requests are accepted.

    Args:
        abuse: limits requests per caller before anything is read.
        allowed_hosts: values of Host; `name:*` allows any port.
        allowed_origins: values of Origin.
    """

    authenticator: Authenticator
    abuse: LocalLimiter
    tracing: Tracing
    allowed_hosts: list[str]
    allowed_origins: list[str]
    body_limit_bytes: int


class Endpoints:
    """Opens each endpoint at its first request: a new toolset needs no restart.

    Use as an asynchronous context manager; leaving it closes all endpoints.
    """

    def __init__(self, registry: Registry, servers: EndpointServers, policy: HttpPolicy) -> None:
        self._registry = registry
        self._servers = servers
        self._policy = policy
        self._guards: dict[str | None, McpGuard] = {}
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Endpoints:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def get(self, toolset: str | None) -> McpGuard | None:
        """The ASGI application of `/mcp` (None) or `/mcp/<toolset>`; None for no such toolset."""
        if toolset is not None and toolset not in self._registry.toolsets:
            return None
        async with self._opening:
            guard = self._guards.get(toolset)
            if guard is None:
                guard = self._guards[toolset] = await self._open(toolset)
        return guard

    async def _open(self, toolset: str | None) -> McpGuard:
        policy = self._policy
        server = self._servers.get(toolset)
        manager = StreamableHTTPSessionManager(
            app=server.mcp,
            stateless=True,
            # JSON responses would drop progress and miss a client's disconnect.
            json_response=False,
            security_settings=TransportSecuritySettings(
                allowed_hosts=policy.allowed_hosts, allowed_origins=policy.allowed_origins
            ),
            max_request_body_size=policy.body_limit_bytes,
        )
        await self._run(manager)
        return McpGuard(
            manager.handle_request,
            server,
            authenticator=policy.authenticator,
            abuse=policy.abuse,
            tracing=policy.tracing,
            body_limit_bytes=policy.body_limit_bytes,
        )

    async def _run(self, manager: StreamableHTTPSessionManager) -> None:
        """Hold a manager open in a task of its own.

        Its task group must be entered and left by the same task, and requests come in many tasks.
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

"""The edge: what its bootstrap has built, for HTTP, stdio and tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from searchbus_bus import Bus, Directory, Worker

from .auth.authenticator import Authenticator
from .catalog.registry import Registry
from .composites.documents import Documents
from .http.admission import HttpPolicy
from .interfaces.calls import HttpCalls
from .mcp.endpoint import Endpoints
from .mcp.servers import EndpointServers, ListChanges
from .settings import EdgeSettings
from .tools.audit import AuditLog

__all__ = ["ASGI", "Edge"]

ASGI = Callable[[Any, Any, Any], Awaitable[None]]
"""An application: takes the scope, receive and send of an HTTP request."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The parts of a running edge; `bootstrap.open_edge` builds it.

    Args:
        registry: the merged view of all workers' catalogs.
        servers: one MCP server per endpoint, for HTTP and stdio.
        endpoints: the HTTP side of each endpoint.
        policy: admits the HTTP requests of all interfaces.
        http_calls: the same pipeline for interfaces of plain HTTP.
        interfaces: those that are served, by the first segments of their paths.
        connector: the composites, to be served on the bus like any worker.
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
    documents: Documents
    connector: Worker
    changes: ListChanges
    audit: AuditLog

    async def ready(self) -> bool:
        """Whether the catalogues of the services were read; a service that is away is no reason."""
        return self.directory.discovered

    def away(self) -> dict[str, str]:
        """The services that are away, and since when."""
        return {absence.service: str(absence) for absence in self.directory.absences}

    async def end_streams(self) -> None:
        """End the open listen streams: they would hold the server's shutdown for its whole time."""
        self.changes.close()

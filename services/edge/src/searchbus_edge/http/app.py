"""The HTTP application: /mcp, /mcp/<toolset>, documents, metadata and health."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request

from searchbus_contracts import VERSION, ErrorCode, Fault
from searchbus_runtime import Health
from searchbus_runtime.health import respond

from ..auth.authenticator import METADATA_PATH, metadata
from ..auth.identity import Unauthenticated
from ..edge import Edge
from .errors import json_rpc_error

__all__ = ["EdgeApp", "build_app"]

DOCUMENT_TIMEOUT_S = 30.0


def build_app(edge: Edge, health: Health) -> EdgeApp:
    """The ASGI application of an edge."""
    app = FastAPI(
        title="searchbus",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        # Its span would take any client's context as the parent; calls/telemetry.py decides that.
        telemetry={"tracing": False},
    )

    @app.get("/")
    async def about() -> dict[str, Any]:
        """Name, version and endpoints."""
        return {
            "name": "searchbus",
            "version": VERSION,
            "endpoints": ["/mcp", *(f"/mcp/{name}" for name in edge.registry.toolsets)],
        }

    @app.get("/healthz")
    @app.get("/readyz")
    @app.get("/metrics")
    async def state(request: Request) -> Response:
        """Liveness, readiness, metrics."""
        status, content_type, body = await respond(health, request.url.path)
        return Response(body, status_code=status, media_type=content_type)

    @app.get(METADATA_PATH)
    @app.get(METADATA_PATH + "/{path:path}")
    async def resource_metadata(path: str = "") -> Response:
        """OAuth 2.0 Protected Resource Metadata (RFC 9728), of the edge and of each endpoint."""
        toolset = path.removeprefix("mcp").strip("/") or None
        known = path in ("", "mcp") or toolset in edge.registry.toolsets
        if edge.settings.mode != "jwt" or not known or not (path == "" or path.startswith("mcp")):
            return Response("not found", status_code=404, media_type="text/plain")
        found = metadata(edge.authenticator, f"/{path}" if path else "", edge.settings.issuer or "")
        return JSONResponse(
            found.model_dump(mode="json", exclude_none=True),
            headers={"Cache-Control": "max-age=300"},
        )

    @app.get("/documents/{collection}/{document_id:path}")
    async def document(request: Request, collection: str, document_id: str) -> Response:
        """A document that has no address of its own, for people who follow a citation."""
        if not _host_allowed(request, edge.settings.hosts):
            return Response("unknown Host", status_code=421, media_type="text/plain")
        credentials = request.headers.getlist("authorization")
        if len(credentials) > 1:
            message = "Send one Authorization header."
            return Response(message, status_code=400, media_type="text/plain")
        try:
            actor = await edge.authenticator.identify("".join(credentials), "/mcp/connector")
        except Unauthenticated as error:
            challenge = edge.authenticator.challenge("/mcp/connector", error).decode("latin-1")
            headers = {"WWW-Authenticate": challenge}
            return Response(error.message, 401, headers=headers, media_type="text/plain")
        try:
            found = await edge.documents.get(
                collection, document_id, actor=actor, timeout_s=DOCUMENT_TIMEOUT_S
            )
        except Fault as fault:
            status = 404 if fault.code in (ErrorCode.NOT_FOUND, ErrorCode.INVALID_ARGUMENT) else 503
            return Response(fault.failure.message, status_code=status, media_type="text/plain")
        # The text is not ours: never render it as markup, never guess its type.
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
        return Response(
            f"{found.title}\n\n{found.text}",
            media_type="text/plain; charset=utf-8",
            headers=headers,
        )

    return EdgeApp(edge, app)


def _host_allowed(request: Request, allowed: list[str]) -> bool:
    """The same check against DNS rebinding as in the MCP transport."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    return host in allowed or f"{name}:*" in allowed


class EdgeApp:
    """Serves the MCP endpoints itself; FastAPI, whose middleware and routing cost more than a call,
    serves the pages around them.

    Args:
        pages: serves every other path, and the lifespan.
    """

    def __init__(self, edge: Edge, pages: FastAPI) -> None:
        self._edge = edge
        self._pages = pages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection of ASGI."""
        path: str = scope.get("path", "")
        if scope["type"] != "http" or not (path == "/mcp" or path.startswith("/mcp/")):
            await self._pages(scope, receive, send)
            return
        endpoint = self._edge.endpoints.get(path[5:].rstrip("/") or None)
        if endpoint is None:
            message = "There is no such toolset. GET / lists the endpoints."
            await json_rpc_error(send, 404, -32600, message)
            return
        await endpoint(scope, receive, send)

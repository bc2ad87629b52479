"""The HTTP application: /mcp, /mcp/<toolset>, interfaces of plain HTTP, documents, metadata and
health."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request

from searchbus_bus.client.parts import Transit
from searchbus_contracts import VERSION, Actor, ErrorCode, Fault
from searchbus_contracts.subjects import is_token
from searchbus_runtime import Health
from searchbus_runtime.health import respond
from searchbus_runtime.protocol import drained

from .auth.authenticator import METADATA_PATH, metadata
from .edge import Edge
from .http.head import Refusal, parse_head
from .tools.telemetry import count_refused

__all__ = ["EdgeApp", "build_app"]

DOCUMENT_TIMEOUT_S = 30.0


def build_app(edge: Edge, health: Health) -> EdgeApp:
    """The ASGI application of an edge.

    Where callers must sign in, nothing but the probes and the metadata of the resource answers
    without a credential, and metrics are on the health port only.
    """
    signed_in = not edge.authenticator.open
    app = FastAPI(
        title="searchbus",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # The address of a redirect would be the Host that the client sends.
        redirect_slashes=False,
        # Its span would take any client's context as the parent; calls/telemetry.py decides that.
        telemetry={"tracing": False},
    )

    async def caller(request: Request, resource: str) -> Actor | Response:
        """Who sends a request, or the response that refuses it."""
        # The address first: a page of another site learns nothing, not even of credentials.
        refusal = edge.policy.addresses.check(parse_head(request.headers.raw))
        found = refusal or await edge.policy.admit(request.scope, resource)
        if not isinstance(found, Refusal):
            return found.actor
        count_refused(found.status)
        response = Response(found.message, found.status, media_type="text/plain")
        response.raw_headers.extend(found.headers)
        return response

    @app.get("/")
    async def about(request: Request) -> Response:
        """Name, version and endpoints."""
        actor = await caller(request, "/mcp")
        if isinstance(actor, Response):
            return actor
        return JSONResponse(
            {
                "name": "searchbus",
                "version": VERSION,
                "endpoints": ["/mcp", *(f"/mcp/{name}" for name in edge.registry.toolsets)],
            }
        )

    @app.get("/healthz")
    @app.get("/readyz")
    @app.get("/metrics")
    async def state(request: Request) -> Response:
        """Liveness, readiness, metrics; the health port answers these to any Host."""
        refusal = edge.policy.addresses.check_probe(parse_head(request.headers.raw))
        if refusal is not None:
            return Response(refusal.message, refusal.status, media_type="text/plain")
        if signed_in and request.url.path == "/metrics":
            return _not_found()
        status, content_type, body = await respond(health, request.url.path)
        return Response(body, status_code=status, media_type=content_type)

    @app.get(METADATA_PATH)
    @app.get(METADATA_PATH + "/{path:path}")
    async def resource_metadata(path: str = "") -> Response:
        """OAuth 2.0 Protected Resource Metadata (RFC 9728), of the edge and of each endpoint.

        Strangers read them: they are the same for a toolset that does not exist.
        """
        root, _, toolset = path.partition("/")
        possible = path in ("", "mcp") or (root == "mcp" and is_token(toolset))
        if not signed_in or not possible:
            return _not_found()
        issuer = edge.settings.issuer if edge.settings.mode == "jwt" else None
        found = metadata(edge.authenticator, f"/{path}" if path else "", issuer)
        return JSONResponse(found, headers={"Cache-Control": "max-age=300"})

    @app.get("/documents/{collection}/{document_id:path}")
    async def document(request: Request, collection: str, document_id: str) -> Response:
        """A document that has no address of its own, for people who follow a citation."""
        actor = await caller(request, "/mcp/connector")
        if isinstance(actor, Response):
            return actor
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


def _not_found() -> Response:
    return Response("not found", status_code=404, media_type="text/plain")


class EdgeApp:
    """Serves MCP and the interfaces of plain HTTP itself; FastAPI, whose middleware and routing
    cost more than a call, serves the pages around them.

    Args:
        pages: serves every other path, and the lifespan.
    """

    def __init__(self, edge: Edge, pages: FastAPI) -> None:
        self._edge = edge
        self._pages = pages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection of ASGI."""
        path: str = scope.get("path", "")
        first = path[1:].partition("/")[0]
        serve: Any
        if scope["type"] != "http":
            serve = self._pages
        elif first == "mcp":
            endpoints = self._edge.endpoints
            serve = endpoints.get(path[5:].rstrip("/") or None) or endpoints.unknown
        else:
            serve = self._edge.interfaces.get(first, self._pages)
        with Transit() as transit:
            await serve(scope, receive, send)
            if transit.held:
                # What the client has not read is still in memory.
                await drained(send)

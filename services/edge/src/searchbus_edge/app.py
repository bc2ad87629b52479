"""The HTTP application: MCP, the interfaces of plain HTTP, documents, metadata, card, health."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from searchbus_bus.client.transit import Transit
from searchbus_contracts import VERSION, Actor, Fault, encode
from searchbus_contracts.retrieval import Document, GetRequest
from searchbus_contracts.subjects import is_token
from searchbus_runtime import Health
from searchbus_runtime.health import respond
from searchbus_runtime.protocol import drained

from .auth.authenticator import METADATA_PATH, metadata
from .bootstrap import ASGI, Edge
from .composites.documents import documents_request
from .http.answer import TEXT, PlainAnswer
from .http.faults import PAGE, HttpError, HttpRefusedError, count_refused, failed
from .http.head import Headers, parse_head
from .interfaces.calls import allowed, bare_app
from .interfaces.server_card import ANYONE, CACHE, documents

DOCUMENT_TIMEOUT_S = 30.0


def build_app(edge: Edge, health: Health) -> ASGI:
    """The ASGI application of an edge.

    It serves MCP, the interfaces of plain HTTP and what describes the edge itself; FastAPI, whose
    middleware and routing cost more than a call, serves the other pages. Where callers must sign
    in, nothing but the probes and the metadata of the resource answers without a credential, and
    metrics are on the health port only.
    """
    signed_in = not edge.authenticator.open
    for status in (400, 401, 403, 404, 413, 429):
        count_refused(status, 0)
    app = bare_app()

    async def admit(request: Request, resource: str) -> Actor:
        """Who sends a request; raises HttpError."""
        # The address first: a page of another site learns nothing, not even of credentials.
        edge.policy.addresses.check(parse_head(request.headers.raw))
        return (await edge.policy.admit(request.scope, resource)).actor

    @app.exception_handler(Fault)
    @app.exception_handler(HttpError)
    async def fail(request: Request, error: Fault | HttpError) -> PlainAnswer:
        return failed(error, PAGE)

    @app.exception_handler(HTTPException)
    async def nowhere(request: Request, error: HTTPException) -> PlainAnswer:
        methods = allowed(app, request.scope).encode()
        headers = ((b"allow", methods),) if methods else ()
        body = encode({"detail": error.detail})
        return PlainAnswer(body, status=error.status_code, headers=headers)

    @app.get("/")
    async def about(request: Request) -> PlainAnswer:
        await admit(request, "/mcp")
        endpoints = ["/mcp", *(f"/mcp/{name}" for name in edge.registry.endpoints)]
        found = {"name": "searchbus", "version": VERSION, "endpoints": endpoints}
        return PlainAnswer(encode(found))

    @app.get("/healthz")
    @app.get("/readyz")
    @app.get("/metrics")
    async def state(request: Request) -> PlainAnswer:
        """Liveness, readiness, metrics; the health port answers these to any Host."""
        try:
            edge.policy.addresses.check_probe(parse_head(request.headers.raw))
        except HttpRefusedError as refusal:
            return _text(refusal.message, refusal.status)
        if signed_in and request.url.path == "/metrics":
            return _text("not found", 404)
        status, content_type, body = await respond(
            health, request.url.path, request.headers.get("accept", "")
        )
        return PlainAnswer(body, status=status, content_type=content_type.encode())

    @app.get(METADATA_PATH)
    @app.get(METADATA_PATH + "/{path:path}")
    async def resource_metadata(path: str = "") -> PlainAnswer:
        """Protected Resource Metadata (RFC 9728), for strangers: alike for any toolset's name."""
        root, _, toolset = path.partition("/")
        possible = path in ("", "mcp") or (root == "mcp" and is_token(toolset))
        if not signed_in or not possible:
            return _text("not found", 404)
        issuer = edge.settings.issuer if edge.settings.mode == "jwt" else None
        found = metadata(edge.authenticator, f"/{path}" if path else "", issuer)
        return PlainAnswer(encode(found), headers=((b"cache-control", b"max-age=300"),))

    async def describe(request: Request) -> PlainAnswer:
        """The server card, or the catalog that names it; the same for everybody."""
        head = parse_head(request.headers.raw)
        head.origin = ""  # pages of other sites may read these
        edge.policy.addresses.check(head)
        await edge.policy.abuse.admit(request.client.host if request.client else "")
        body, content_type = described[request.url.path]
        known = request.headers.get("if-none-match")
        return body.answer(known, cache=CACHE, content_type=content_type, headers=ANYONE)

    described = documents(edge.settings, edge.authenticator.resource_url)
    for path in described:
        app.get(path)(describe)

    @app.get("/documents/{collection}/{document_id:path}")
    async def document(request: Request, collection: str, document_id: str) -> PlainAnswer:
        """A document that has no address of its own, for people who follow a citation."""
        actor = await admit(request, "/mcp/connector")
        wanted = GetRequest(document_id=document_id, collection=collection)
        asked = documents_request(edge.bus, "get", wanted, Document, timeout_s=DOCUMENT_TIMEOUT_S)
        found = await edge.read("documents/get", actor, asked, wanted)
        # The text is not ours: never render it as markup.
        headers = ((b"content-security-policy", b"sandbox"),)
        return _text(f"{found.title}\n\n{found.text}", headers=headers)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        path: str = scope.get("path", "")
        first = path[1:].partition("/")[0]
        answer: ASGI
        if scope["type"] != "http" or (path in described and scope["method"] != "POST"):
            answer = app
        elif first == "mcp":
            name = path[5:].rstrip("/") or None
            answer = edge.endpoints.get(name) or edge.endpoints.unknown
        else:
            answer = edge.interfaces.get(first, app)
        with Transit() as transit:
            await answer(scope, receive, send)
            if transit.held:
                # What the client has not read is still in memory.
                await drained(send)

    return serve


def _text(text: str, status: int = 200, headers: Headers = ()) -> PlainAnswer:
    return PlainAnswer(text.encode(), status=status, content_type=TEXT, headers=headers)

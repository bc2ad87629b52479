"""An authorization server on loopback, and an MCP server that takes its tokens only.

    async with protected_server() as world:
        world.provider, world.url

Both keep what they saw, and a test can spoil what they answer.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from searchbus_testing import serve

SECRET = "s3cret-of-the-client"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


@dataclass
class Issued:
    """A token."""

    subject: str
    resource: str
    expires_s: float


@dataclass
class Provider:
    """The authorization server, and what a test changes of it.

    Attributes:
        lives_s: life of its tokens.
        stated_issuer: in place of its own.
        wrong_resource: that tokens are issued for, whatever is asked.
        refuses: error by grant type.
        pause_s: before a token is issued.
        registers: whether it registers clients.
        reads_documents: whether it takes the address of a client metadata document as client_id.
        documents_at: where documents are found in place of `https://bus.example`.
        sends_iss: whether its answers name it (RFC 9207).
        asked: what browsers came with.
        keys: of those whose statements it exchanges.
        forms: of the requests to its token endpoint, with their Authorization.
    """

    issuer: str = ""
    lives_s: float = 3600.0
    stated_issuer: str = ""
    wrong_resource: str = ""
    refuses: dict[str, str] = field(default_factory=dict)
    pause_s: float = 0.0
    registers: bool = True
    reads_documents: bool = False
    documents_at: str = ""
    sends_iss: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    challenge_methods: tuple[str, ...] | None = ("S256",)
    keys: dict[str, Any] | None = None
    person: str = "ann"
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    issued: dict[str, Issued] = field(default_factory=dict)
    refresh: dict[str, str] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.clients["searchbus"] = {"client_id": "searchbus", "client_secret": SECRET}
        self.secrets.add(SECRET)

    def routes(self) -> list[Route]:
        """Of its endpoints."""
        return [
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
            Route("/register", self.register, methods=["POST"]),
            Route("/revoke", self.revoke, methods=["POST"]),
        ]

    async def metadata(self, _: Request) -> Response:
        found: dict[str, Any] = {
            "issuer": self.stated_issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": self.challenge_methods,
            "authorization_response_iss_parameter_supported": self.sends_iss,
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
        }
        if self.registers:
            found["registration_endpoint"] = f"{self.issuer}/register"
        if self.reads_documents:
            found["client_id_metadata_document_supported"] = True
        return JSONResponse(found)

    async def register(self, request: Request) -> Response:
        wanted = await request.json()
        if "refused" in wanted["redirect_uris"][0]:
            return JSONResponse({"error": "word", "error_description": SECRET}, status_code=400)
        client = {"client_id": f"c{len(self.clients)}", "client_secret": secrets.token_urlsafe()}
        self.secrets.add(client["client_secret"])
        found = {**wanted, **client, "token_endpoint_auth_method": "client_secret_basic"}
        self.clients[client["client_id"]] = found
        return JSONResponse(found, status_code=201)

    async def authorize(self, request: Request) -> Response:
        """The person says yes at once."""
        asked = dict(request.query_params)
        self.asked.append(asked)
        if self.reads_documents and asked["client_id"].startswith("https://"):
            await self._read_document(asked["client_id"])
        if asked["redirect_uri"] not in self.clients[asked["client_id"]]["redirect_uris"]:
            return JSONResponse({"error": "invalid_request"}, status_code=400)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self.codes[code] = {**asked, "person": self.person}
        self.secrets.add(code)
        back = {"code": code, "state": asked["state"]}
        if self.sends_iss:
            back["iss"] = self.stated_issuer or self.issuer
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def _read_document(self, client_id: str) -> None:
        async with httpx.AsyncClient() as http:
            at = client_id.replace("https://bus.example", self.documents_at)
            found = (await http.get(at)).json()
        assert found["client_id"] == client_id
        assert found["token_endpoint_auth_method"] == "none"
        self.clients[client_id] = found

    async def revoke(self, request: Request) -> Response:
        form = dict(await request.form())
        self.revoked.append(str(form["token"]))
        return Response()

    async def token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.forms.append({**form, "authorization": request.headers.get("authorization", "")})
        await asyncio.sleep(self.pause_s)
        kind = form["grant_type"]
        if not self._known(request, form):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        if kind in self.refuses:
            said = {"error": self.refuses[kind], "error_description": f"no {SECRET} for you"}
            return JSONResponse(said, status_code=400)
        subject = self._subject(kind, form)
        if subject is None:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        return JSONResponse(self._issue(subject, form.get("resource", "")))

    def _known(self, request: Request, form: dict[str, str]) -> bool:
        given = request.headers.get("authorization", "")
        if not given.startswith("Basic "):
            client = self.clients.get(form.get("client_id", ""), {})
            return client.get("token_endpoint_auth_method") == "none"
        name, _, secret = base64.b64decode(given[6:]).decode().partition(":")
        return self.clients.get(name, {}).get("client_secret") == secret

    def _subject(self, kind: str, form: dict[str, str]) -> str | None:
        if kind == "client_credentials":
            return "the client"
        if kind == EXCHANGE:
            statement = jwt.decode(form["subject_token"], KeySet.import_key_set(self.keys))
            self.secrets.add(form["subject_token"])
            assert statement.claims["aud"] == self.issuer
            assert statement.claims["exp"] > time.time()
            return str(statement.claims["sub"])
        if kind == "refresh_token":
            return self.refresh.pop(form["refresh_token"], None)
        asked = self.codes.pop(form["code"], None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return asked["person"] if challenge == asked["code_challenge"] else None

    def _issue(self, subject: str, resource: str) -> dict[str, Any]:
        token, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.issued[token] = Issued(
            subject, self.wrong_resource or resource, time.time() + self.lives_s
        )
        self.refresh[refresh] = subject
        self.secrets |= {token, refresh}
        return {
            "access_token": token, "token_type": "bearer", "expires_in": self.lives_s,
            "refresh_token": refresh,
        }  # fmt: skip

    def expire_all(self) -> None:
        """The MCP server refuses all tokens so far, whatever was said of their life."""
        for issued in self.issued.values():
            issued.expires_s = 0.0


@dataclass
class MixingProvider(Provider):
    """One that sends browsers on to another one, as the client that searchbus is there, and takes
    the code that comes back to the other's token endpoint (RFC 9700, 4.4).

    Attributes:
        other: the honest one.
        seen: what searchbus asked there before; its values take the place of those asked here.
        stolen: the answers to the codes.
    """

    other: Provider = field(default_factory=Provider)
    seen: dict[str, str] = field(default_factory=dict)
    stolen: list[httpx.Response] = field(default_factory=list)

    async def authorize(self, request: Request) -> Response:
        query = urlencode({**request.query_params, **self.seen})
        return RedirectResponse(f"{self.other.issuer}/authorize?{query}", status_code=302)

    async def token(self, request: Request) -> Response:
        form = {**(await request.form()), **self.seen}
        async with httpx.AsyncClient() as http:
            self.stolen.append(await http.post(f"{self.other.issuer}/token", data=form))
        return JSONResponse(self.stolen[-1].json(), status_code=self.stolen[-1].status_code)


@dataclass
class Protected:
    """The MCP server, and what a test changes of it.

    Attributes:
        stated_resource: in its metadata, in place of its own URL.
        named_server: its authorization server, in place of the right one.
        redirects_to: where it redirects everything.
        headers: of the requests that it got.
        metas: `_meta` of the calls.
    """

    provider: Provider
    url: str = ""
    stated_resource: str = ""
    named_server: str = ""
    redirects_to: str = ""
    has_metadata: bool = True
    headers: list[dict[str, str]] = field(default_factory=list)
    metas: list[dict[str, Any]] = field(default_factory=list)

    async def describe(self, _: Request) -> Response:
        if not self.has_metadata:
            return Response(status_code=404)
        return JSONResponse({
            "resource": self.stated_resource or self.url,
            "authorization_servers": [self.named_server or self.provider.issuer],
            "scopes_supported": ["read"],
        })  # fmt: skip

    def refusal(self, headers: dict[str, str]) -> Response | None:
        """The answer to a request without a good token."""
        if self.redirects_to:
            return RedirectResponse(self.redirects_to, status_code=307)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        issued = self.provider.issued.get(token)
        if (
            scheme == "Bearer" and issued is not None
            and issued.resource == self.url and issued.expires_s > time.time()
        ):  # fmt: skip
            return None
        where = self.url.replace("/mcp", "/described")
        challenge = f'Bearer resource_metadata="{where}"' if self.has_metadata else "Bearer"
        return Response(status_code=401, headers={"WWW-Authenticate": challenge})


@asynccontextmanager
async def protected_server(provider: Provider | None = None) -> AsyncIterator[Protected]:
    """Serve both, each on a free port."""
    provider = provider or Provider()
    world = Protected(provider)
    server = MCPServer("safe", version="3.0")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def whoami(ctx: Context) -> str:
        """For whom the token was issued."""
        request = ctx.request_context.request
        token = request.headers["authorization"].removeprefix("Bearer ")
        return provider.issued[token].subject

    streamable = server.streamable_http_app()
    described = Starlette(routes=[Route("/described", world.describe)])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/described" or scope["path"].startswith("/.well-known"):
            await described(scope, receive, send)
            return
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        world.headers.append(headers)
        refusal = world.refusal(headers)
        await (refusal or streamable)(scope, _noting(receive, world.metas), send)

    started, over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        # In one task: a fixture ends in another one than it begins in.
        async with (
            serve(Starlette(routes=provider.routes())) as issuer,
            server.session_manager.run(),
            serve(app) as base,
        ):
            provider.issuer, world.url = issuer, f"{base}/mcp"
            started.set()
            await over.wait()

    running = asyncio.create_task(run())
    await started.wait()
    try:
        yield world
    finally:
        over.set()
        await running


def _noting(receive: Any, metas: list[dict[str, Any]]) -> Any:
    async def noted() -> Any:
        message = await receive()
        if message.get("body"):
            sent = json.loads(message["body"])
            if sent.get("method") == "tools/call":
                metas.append(sent["params"].get("_meta", {}))
        return message

    return noted

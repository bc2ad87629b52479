"""The pages of a sign-in, for people's browsers (ASGI).

| path | what |
| --- | --- |
| GET `/login/<ticket>` | which server, for which caller; a button; sets a cookie |
| POST `/login/<ticket>` | goes to the authorization server; or keeps the key that was entered |
| GET `/servers/<server>/callback` | back from there |
| GET `/servers/<server>/client.json` | its client metadata document, for authorization servers |

The first page asks, so that nobody who only follows a link signs in for another caller. Its cookie
is needed for the other two: a page of another site cannot press the button (SameSite), and no other
browser can end the sign-in.
"""

from __future__ import annotations

import html
import logging
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ..declare.servers import Server
from ..errors import AuthError, LoginRequiredError, ServerDeclarationError
from ..metrics import count
from .login import TICKET_S, Logins

log = logging.getLogger("searchbus.attach")
_COOKIE = "searchbus_login"
_SERVER = "searchbus.server"
"""Key of the scope of a request: the server whose sign-in it is."""
_MAX_FORM_BYTES = 16 * 1024
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def login_app(logins: Logins, server_named: Callable[[str], Server | None]) -> Starlette:
    """The application.

    Args:
        server_named: a server by its name, with its variables expanded; None for an unknown name.
            Raises DeclarationError.
    """
    pages = _Pages(logins, server_named)
    base = urlsplit(logins.address).path
    of_server = f"{base}/servers/{{server}}"
    routes = [
        Route(f"{base}/login/{{ticket}}", pages.ask, methods=["GET"]),
        Route(f"{base}/login/{{ticket}}", pages.begin, methods=["POST"]),
        Route(f"{of_server}/callback", pages.finish, methods=["GET"]),
    ]
    if logins.document("any"):
        routes.append(Route(f"{of_server}/client.json", pages.client_document, methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={AuthError: _failed})


class _Pages:
    def __init__(self, logins: Logins, server_named: Callable[[str], Server | None]) -> None:
        self._logins = logins
        self._server_named = server_named
        parts = urlsplit(logins.address)
        self._secure = parts.scheme == "https"
        self._path = parts.path or "/"

    async def ask(self, request: Request) -> Response:
        ticket = self._logins.read(request.path_params["ticket"])
        server = self._server(ticket.server)
        if ticket.caller:
            use = f"Calls to searchbus as {ticket.caller!r} then use your account there."
        elif server.state == "per_user":
            use = "searchbus then reads its lists with your account there."
        else:
            use = "The calls of all callers of searchbus then use your account there."
        text = (
            f"searchbus asks you to sign in to {server.name} ({server.target}). {use} "
            "Continue only if you asked for this."
        )
        if _takes_key(server):
            field = f"{server.auth.key_header or 'API key'} of {server.name}" if server.auth else ""
            response = _page("Enter your key", text, button="Keep this key", field=field)
        else:
            response = _page("Sign in", text, button=f"Continue to {server.name}")
        # The one that there is stays: the browser may be in the middle of another sign-in.
        nonce = request.cookies.get(_COOKIE) or secrets.token_urlsafe(32)
        response.set_cookie(
            _COOKIE, nonce, max_age=TICKET_S, path=self._path, httponly=True,
            secure=self._secure, samesite="lax",
        )  # fmt: skip
        return response

    async def begin(self, request: Request) -> Response:
        ticket = self._logins.read(request.path_params["ticket"])
        nonce = request.cookies.get(_COOKIE, "")
        if not nonce:
            raise LoginRequiredError("Open the address in this browser first.")
        server = self._server(ticket.server, request)
        if _takes_key(server):
            self._logins.keep_key(server, ticket.caller, await _entered(request))
            count("logins", server=server.name, outcome="ok")
            log.info("%s: %s entered a key", server.name, ticket.caller or "the operator")
            return _page("Kept", f"Your key of {server.name} is kept. Repeat the call now.")
        address = await self._logins.begin(server, ticket.caller, nonce)
        return RedirectResponse(address, status_code=303, headers=_HEADERS)

    async def finish(self, request: Request) -> Response:
        query = request.query_params
        nonce = request.cookies.get(_COOKIE, "")
        pending = self._logins.pending(query.get("state", ""), nonce)
        server = self._server(pending.server, request)
        if not query.get("code"):
            raise LoginRequiredError("The authorization server did not sign you in.")
        came_to = request.path_params["server"]
        await self._logins.finish(
            server, pending, came_to=came_to, code=query["code"], issuer=query.get("iss")
        )
        count("logins", server=server.name, outcome="ok")
        log.info("%s: %s signed in", server.name, pending.caller or "the operator")
        return _page("Signed in", f"You are signed in to {server.name}. Repeat the call now.")

    async def client_document(self, request: Request) -> Response:
        server = self._server(request.path_params["server"])
        return JSONResponse(self._logins.client_document(server.name))

    def _server(self, name: str, request: Request | None = None) -> Server:
        """The server that is signed in to; a failure of this request counts as its failure."""
        try:
            server = self._server_named(name)
        except ServerDeclarationError as error:
            raise AuthError(str(error)) from None
        if server is None or server.auth is None or not server.auth.method.by_person:
            raise LoginRequiredError("There is no such server any more.")
        if request is not None:
            request.scope[_SERVER] = server.name
        return server


def _takes_key(server: Server) -> bool:
    return server.auth is not None and server.auth.is_key


async def _entered(request: Request) -> str:
    """The key of a form; raises LoginRequiredError where the form is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_FORM_BYTES:
            raise LoginRequiredError("This is not a key that can be sent. Copy it again.")
    found = parse_qs(body.decode("ascii", "replace")).get("key", [""])
    return found[0].strip()


async def _failed(request: Request, error: Exception) -> Response:
    server = request.scope.get(_SERVER)
    if server:
        count("logins", server=server, outcome="failed")
        log.warning("%s: a sign-in failed: %s", server, error)
    return _page("Not signed in", f"The sign-in failed: {error}", status=400)


def _page(
    title: str, text: str, *, button: str = "", field: str = "", status: int = 200
) -> HTMLResponse:
    """A page; with a button, and a field for a key beside it where that has a label."""
    entry = (
        f'<label>{html.escape(field)} <input type="password" name="key" required '
        'autocomplete="off"></label> '
    )
    form = f"{entry if field else ''}<button>{html.escape(button)}</button>"
    form = f'<form method="post">{form}</form>' if button else ""
    # form-action is not limited: browsers apply it to the redirect, which leaves this host.
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<h1>{title}</h1><p>{html.escape(text)}</p>{form}</html>",
        status_code=status,
        headers=_HEADERS,
    )

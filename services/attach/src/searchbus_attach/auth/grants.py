"""How each method of signing in gets tokens, but for the sign-ins of people; see `METHODS`."""

from __future__ import annotations

from dataclasses import dataclass

from ..declare.auth_methods import OURSELVES
from ..declare.servers import Server
from ..errors import AuthError, LoginRequiredError
from .http import AuthHttp
from .keys import ServiceIdentity
from .login import NO_LOGINS, Logins
from .provider import discover
from .vault import Tokens

_OUR_SUBJECT = "searchbus"
"""As whom the list is read, where a token says who the caller is."""
_TOKEN_TYPES = "urn:ietf:params:oauth:token-type"  # noqa: S105  (a name of RFC 8693)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Tokens that a caller needs for a server.

    Args:
        server: its variables are expanded.
        caller: `OURSELVES` or a subject.
        rejected: an access token that the server answered 401 to; empty otherwise.
        http: for requests to authorization servers.
        identity: states who a caller is; None: it cannot be stated.
        logins: the sign-ins of people; None: they cannot sign in.
    """

    server: Server
    caller: str
    rejected: str
    http: AuthHttp
    identity: ServiceIdentity | None
    logins: Logins | None


async def client_credentials(request: TokenRequest) -> Tokens:
    """A token for searchbus itself (RFC 6749, 4.4). Raises AuthError."""
    provider = await discover(request.http, request.server)
    form = {"grant_type": "client_credentials", **provider.parameters}
    return await provider.tokens(provider.declared_client(), form)


async def token_exchange(request: TokenRequest) -> Tokens:
    """A token that says who the caller is, for searchbus's own statement of that (RFC 8693).

    Raises:
        AuthError: there is no key for statements, or no token.
    """
    if request.caller == _OUR_SUBJECT:
        raise AuthError(f"the subject {_OUR_SUBJECT!r} stands for searchbus itself")
    if request.identity is None:
        raise AuthError("callers cannot be stated: set SEARCHBUS_ATTACH_IDENTITY_KEY")
    provider = await discover(request.http, request.server)
    caller = request.caller or _OUR_SUBJECT
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": request.identity.statement(caller, provider.issuer),
        "subject_token_type": f"{_TOKEN_TYPES}:jwt",
        "requested_token_type": f"{_TOKEN_TYPES}:access_token",
        "audience": provider.auth.audience,
        **provider.parameters,
    }
    return await provider.tokens(provider.declared_client(), form)


async def of_person(request: TokenRequest) -> Tokens:
    """The tokens of a person who signed in, or the key that a person entered.

    Raises:
        LoginRequiredError: nobody did.
        AuthError: nobody can, or the authorization server cannot be used now.
    """
    if request.logins is None:
        raise AuthError(NO_LOGINS)
    try:
        return await request.logins.tokens(request.server, request.caller, request.rejected)
    except LoginRequiredError as required:
        if request.caller != OURSELVES:
            raise
        command = f"searchbus attach login {request.server.name}"
        raise LoginRequiredError(f"{required}: {command}") from None

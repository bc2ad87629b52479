"""How tokens are got, for each type of `auth`."""

from __future__ import annotations

from ..declare.servers import Server
from .declaration import Auth
from .discovery import Provider, discover
from .faults import AuthFault
from .http import AuthHttp
from .identity import TOKEN_TYPE, Identity
from .token_endpoint import Tokens, client_of, request_tokens

__all__ = ["client_credentials", "parameters", "token_exchange"]

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  (a name of RFC 8693)


def parameters(auth: Auth, provider: Provider) -> dict[str, str]:
    """What tokens are for: resource (RFC 8707) and scope."""
    return {
        "resource": auth.resource or provider.resource,
        "scope": " ".join(auth.scopes) or provider.scope,
    }


async def client_credentials(http: AuthHttp, server: Server, auth: Auth) -> Tokens:
    """RFC 6749, 4.4. Raises AuthFault."""
    provider = await discover(http, server.url, auth.issuer)
    client = client_of(provider, auth.client_id, auth.client_secret)
    form = {"grant_type": "client_credentials", **parameters(auth, provider)}
    return await request_tokens(http, provider, client, form)


async def token_exchange(
    http: AuthHttp, server: Server, auth: Auth, identity: Identity | None, caller: str
) -> Tokens:
    """RFC 8693: a token that says who the caller is, for searchbus's own statement of that.

    Raises:
        AuthFault: there is no key for statements, or no token.
    """
    if identity is None:
        raise AuthFault("callers cannot be stated: set SEARCHBUS_ATTACH_IDENTITY_KEY")
    provider = await discover(http, server.url, auth.issuer)
    client = client_of(provider, auth.client_id, auth.client_secret)
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": identity.statement(caller, provider.issuer),
        "subject_token_type": TOKEN_TYPE,
        "requested_token_type": _ACCESS_TOKEN,
        "audience": auth.audience,
        **parameters(auth, provider),
    }
    return await request_tokens(http, provider, client, form)

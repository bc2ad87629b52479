"""Revokes tokens at the authorization server that issued them (RFC 7009)."""

from __future__ import annotations

from ..declare.servers import Server
from .declaration import Auth
from .discovery import discover
from .faults import AuthFault
from .http import AuthHttp
from .login import Logins
from .token_endpoint import Tokens, authenticated

__all__ = ["revoke"]


async def revoke(logins: Logins, server: Server, auth: Auth, tokens: Tokens) -> str:
    """Revoke tokens that are not in the vault any more; what became of it, for people."""
    http = AuthHttp()
    try:
        provider = await discover(http, server.url, auth.issuer)
        address = provider.metadata.revocation_endpoint
        if address is None or provider.issuer != tokens.issuer:
            return "forgotten; its provider revokes no tokens"
        client = await logins.client(server, auth, provider)
        # The end of a refresh token is the end of its access tokens.
        form = {"token": tokens.refresh_token or tokens.access_token}
        response = await http.send(authenticated(str(address), client, form))
    except AuthFault as fault:
        return f"forgotten, not revoked: {fault}"
    finally:
        await http.aclose()
    if not response.is_success:
        return f"forgotten, not revoked: HTTP {response.status_code}"
    return "forgotten and revoked"

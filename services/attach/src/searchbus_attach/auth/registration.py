"""Clients that register themselves with an authorization server (RFC 7591)."""

from __future__ import annotations

import httpx2
from mcp.client.auth import OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import handle_registration_response, issuers_match
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from .discovery import Provider
from .faults import AuthFault
from .http import AuthHttp, shown
from .vault import Registered, Vault

__all__ = ["client_for"]


async def client_for(
    http: AuthHttp, vault: Vault, server: str, provider: Provider, redirect_uri: str
) -> OAuthClientInformationFull:
    """The client that is registered for a server; it is registered where it is not yet.

    Raises:
        AuthFault: the authorization server offers no registration, or refuses it.
    """
    known = vault.client(server)
    if (
        known is not None
        and known.redirect_uri == redirect_uri
        and issuers_match(known.issuer, provider.issuer)
    ):
        return OAuthClientInformationFull.model_validate(known.information)
    address = provider.metadata.registration_endpoint
    if address is None:
        raise AuthFault(
            f"{shown(provider.issuer)} registers no clients; set 'client_id' and 'issuer'"
        )
    wanted = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        client_name="searchbus",
        application_type="native" if redirect_uri.startswith("http://") else "web",
    )
    request = httpx2.Request(
        "POST", str(address), json=wanted.model_dump(by_alias=True, mode="json", exclude_none=True)
    )
    try:
        found = await handle_registration_response(await http.send(request))
        check_registration_usable(found)
    except OAuthRegistrationError:
        # Its text has the answer of the authorization server.
        raise AuthFault(f"{shown(str(address))} refuses to register a client") from None
    record = found.model_dump(mode="json", exclude_none=True)
    vault.put_client(
        server,
        Registered(issuer=provider.issuer, redirect_uri=redirect_uri, information=record),
    )
    return found

"""Which authorization server issues tokens for a server, and for what (RFC 9728, 8414, 8707).

    provider = await discover(http, "https://mcp.example.org/mcp", issuer)

The server is asked without credentials; its challenge names its metadata, which name the issuer,
whose metadata name the endpoints. Where an issuer is declared, no other is taken: client secrets go
there only. Addresses must be https, unless the declaration itself uses http.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
    validate_metadata_issuer,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

from .faults import AuthFault
from .http import AuthHttp, shown

__all__ = ["Provider", "discover"]


@dataclass(frozen=True, slots=True)
class Provider:
    """An authorization server, as it concerns one server.

    Args:
        metadata: its endpoints.
        resource: for which tokens are asked.
        scope: that the server asks for; empty where it names none.
    """

    metadata: OAuthMetadata
    resource: str
    scope: str = ""

    @property
    def issuer(self) -> str:
        """As it states it."""
        return str(self.metadata.issuer)


async def discover(http: AuthHttp, url: str, issuer: str = "") -> Provider:
    """The authorization server of a server.

    Args:
        url: of the server.
        issuer: the only one that may be taken; empty: the one that the server names.

    Raises:
        AuthFault: it names no authorization server, or another one, or says what does not fit.
    """
    plain = "http://" in (url[:7], issuer[:7])
    challenge = await http.send(
        httpx2.Request("GET", url, headers={"Accept": "text/event-stream"}), with_body=False
    )
    described = await _protected_resource(http, url, challenge)
    resource = resource_url_from_server_url(url)
    scope = extract_scope_from_www_auth(challenge) or ""
    if described is not None:
        stated = str(described.resource)
        if not check_resource_allowed(resource, stated):
            raise AuthFault(f"its metadata are of another resource, {shown(stated)}")
        resource = stated
        scope = scope or " ".join(described.scopes_supported or ())
    expected = _issuer(url, issuer, described)
    _check_address(expected, plain)
    metadata = await _metadata(http, url, expected, has_own_issuer=described is None and not issuer)
    for endpoint in (
        metadata.authorization_endpoint, metadata.token_endpoint,
        metadata.registration_endpoint, metadata.revocation_endpoint,
    ):  # fmt: skip
        if endpoint is not None:
            _check_address(str(endpoint), plain)
    return Provider(metadata, resource, scope)


async def _protected_resource(
    http: AuthHttp, url: str, challenge: httpx2.Response
) -> ProtectedResourceMetadata | None:
    named = None
    if challenge.status_code == httpx2.codes.UNAUTHORIZED:
        named = extract_resource_metadata_from_www_auth(challenge)
    if named is not None and not _is_of(named, url):
        named = None  # a server must not choose which other hosts we ask
    for address in build_protected_resource_metadata_discovery_urls(named, url):
        response = await http.send(create_oauth_metadata_request(address))
        if response.is_server_error or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            raise AuthFault(f"its metadata cannot be read (HTTP {response.status_code})")
        found = await handle_protected_resource_response(response)
        if found is not None:
            return found
    return None


def _issuer(url: str, declared: str, described: ProtectedResourceMetadata | None) -> str:
    """The issuer whose metadata are read."""
    if described is None:
        return declared or _origin(url)
    advertised = [str(server) for server in described.authorization_servers]
    if not declared:
        return advertised[0]
    for found in advertised:
        if issuers_match(found, declared):
            return found
    raise AuthFault(
        f"its authorization server is {shown(advertised[0])}, which is not the declared issuer; "
        "nothing was sent there"
    )


async def _metadata(
    http: AuthHttp, url: str, issuer: str, *, has_own_issuer: bool
) -> OAuthMetadata:
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer, url):
        response = await http.send(create_oauth_metadata_request(address))
        goes_on, found = await handle_auth_metadata_response(response)
        if not goes_on:
            raise AuthFault(f"{shown(issuer)} cannot be asked (HTTP {response.status_code})")
        if found is None:
            continue
        stated = str(found.issuer)
        try:
            validate_metadata_issuer(found, stated if issuers_match(stated, issuer) else issuer)
        except OAuthFlowError:
            raise AuthFault(
                f"{shown(issuer)} says that it is another issuer, {shown(stated)}"
            ) from None
        return found
    if has_own_issuer:
        raise AuthFault("it names no authorization server; set 'issuer'")
    raise AuthFault(f"{shown(issuer)} publishes no metadata of an authorization server")


def _is_of(found: str, url: str) -> bool:
    """Whether an address that a server names is of the server's own origin."""
    try:
        httpx2.URL(found)
        return _origin(found) == _origin(url)
    except (ValueError, httpx2.InvalidURL):  # it is not an address
        return False


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _check_address(url: str, plain: bool) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc or not (parts.scheme == "https" or (plain and parts.scheme == "http")):
        raise AuthFault(f"the address {shown(url)} of its authorization server is not https")

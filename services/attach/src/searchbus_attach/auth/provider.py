"""One authorization server: found from a server's metadata, then asked for clients and tokens.

    provider = await discover(http, server)
    tokens = await provider.tokens(provider.declared_client(), form)

Documents and requests are the MCP SDK's (RFC 9728, 8414, 7591). Which addresses are asked is
decided here: where an issuer is declared no other one is taken, and addresses must be https.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthRegistrationError
from mcp.client.auth.oauth2 import OAuthContext, check_registration_usable
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    create_client_registration_request,
    create_oauth_metadata_request,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    handle_registration_response,
    issuers_match,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, ValidationError

from ..declare.auth_methods import Auth
from ..declare.servers import Server
from ..errors import AuthError
from .vault import Tokens

_LONGEST_S = 10 * 365 * 86_400
"""The longest life of a token: a longer one need not fit into a float."""
_MAX_ADDRESS_CHARS = 2000
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
TOKEN = re.compile(r"[!-~]+")
"""What can stand in a header; RFC 6750 allows less."""
MAX_BODY_BYTES = 256 * 1024
_TIMEOUT_S = 10.0


class AuthHttp:
    """The HTTP client of all requests to authorization servers: small bodies, each within
    `timeout_s`, no redirects, no cookies."""

    def __init__(self, timeout_s: float = _TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._opened: httpx2.AsyncClient | None = None

    async def send(self, request: httpx2.Request, *, with_body: bool = True) -> httpx2.Response:
        """The response, whatever its status, with its body where that is of interest.

        Raises:
            AuthError: the server does not respond in time, or its body is too large.
        """
        request.headers.setdefault("Accept", "application/json")
        request.headers["Accept-Encoding"] = "identity"
        try:
            async with asyncio.timeout(self._timeout_s):
                # It takes 20 ms to make one, which servers without sign-in need not spend. A server
                # could set more cookies with each answer: none is kept.
                none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
                self._opened = self._opened or httpx2.AsyncClient(
                    timeout=self._timeout_s, cookies=none
                )
                response = await self._opened.send(request, stream=True, follow_redirects=False)
                try:
                    body = await _body(response) if with_body else b""
                finally:
                    await response.aclose()
        except (httpx2.TimeoutException, TimeoutError):
            raise AuthError(f"{shown(request.url)} does not answer in time") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError):
            raise AuthError(f"{shown(request.url)} cannot be reached") from None
        # It would inflate a compressed body as a whole, of which we have the bytes that were sent.
        response.headers.pop("content-encoding", None)
        return httpx2.Response(
            response.status_code, headers=response.headers, content=body, request=request
        )

    async def aclose(self) -> None:
        """Close its connections; a further request opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()


async def _body(response: httpx2.Response) -> bytes:
    found = bytearray()
    async for chunk in response.aiter_raw():
        found += chunk
        if len(found) > MAX_BODY_BYTES:
            raise AuthError(f"{shown(response.url)} sent more than {MAX_BODY_BYTES // 1024} KiB")
    return bytes(found)


def shown(url: object) -> str:
    """An address for messages: without user, password, query and path."""
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class TokenRefusedError(AuthError):
    """The authorization server refuses the request; `code` is RFC 6749's (5.2), if the answer has
    one."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class AuthorizationProvider:
    """An authorization server, as it concerns one server.

    Args:
        metadata: its endpoints.
        auth: how the server is signed in to.
        resource: the tokens' resource (RFC 8707).
        scope: the tokens' scope; empty where nobody names one.
    """

    http: AuthHttp
    metadata: OAuthMetadata
    auth: Auth
    resource: str
    scope: str

    @property
    def issuer(self) -> str:
        """As it states it."""
        return str(self.metadata.issuer)

    @property
    def parameters(self) -> dict[str, str]:
        """What tokens are for."""
        return {"resource": self.resource, "scope": self.scope}

    def declared_client(self) -> OAuthClientInformationFull:
        """The client of the declaration, and how it says who it is."""
        known = self.metadata.token_endpoint_auth_methods_supported
        secret = self.auth.client_secret
        method = "none"
        if secret:
            basic = known is None or "client_secret_basic" in known
            method = "client_secret_basic" if basic else "client_secret_post"
        return OAuthClientInformationFull(
            client_id=self.auth.client_id,
            client_secret=secret or None,
            token_endpoint_auth_method=method,
        )

    async def register(self, server: str, redirect_uri: str) -> OAuthClientInformationFull:
        """A new client for a server of this name (RFC 7591).

        Raises:
            AuthError: the authorization server offers no registration, or refuses it.
        """
        address = self.metadata.registration_endpoint
        if address is None:
            raise AuthError(
                f"{shown(self.issuer)} registers no clients; register one there, with the redirect "
                f"URI {redirect_uri}, and set 'client_id' and 'issuer'"
            )
        wanted = client_metadata(server, redirect_uri)
        request = create_client_registration_request(self.metadata, wanted, self.issuer)
        try:
            found = await handle_registration_response(await self.http.send(request))
            check_registration_usable(found)
        except OAuthRegistrationError:
            # Its text has the answer of the authorization server.
            raise AuthError(f"{shown(address)} refuses to register a client") from None
        return found

    async def tokens(self, client: OAuthClientInformationFull, form: dict[str, str]) -> Tokens:
        """New tokens.

        Args:
            form: of the grant; empty values are left out.

        Raises:
            TokenRefusedError: the authorization server says no.
            AuthError: it cannot be reached, or its answer has no token.
        """
        form = {name: value for name, value in form.items() if value}
        address = self.metadata.token_endpoint
        response = await self.http.send(_authenticated(str(address), client, form))
        if not response.is_success:
            code = _error_code(response)
            why = code or f"HTTP {response.status_code}"
            raise TokenRefusedError(f"{shown(address)} refuses a token ({why})", code)
        try:
            found = OAuthToken.model_validate_json(response.content)
        except ValidationError:
            found = None
        if found is None or not TOKEN.fullmatch(found.access_token):
            raise AuthError(f"{shown(address)} sent an answer without a usable bearer token")
        now_s = time.time()
        life_s = found.expires_in
        return Tokens(
            access_token=found.access_token,
            expires_s=None if life_s is None else now_s + min(life_s, _LONGEST_S),
            issued_s=now_s,
            refresh_token=found.refresh_token or "",
            issuer=self.issuer,
            client_id=client.client_id,
        )

    async def revoke(self, client: OAuthClientInformationFull, tokens: Tokens) -> httpx2.Response:
        """The answer to a revocation (RFC 7009); the metadata must name its endpoint."""
        # The end of a refresh token is the end of its access tokens.
        form = {"token": tokens.refresh_token or tokens.access_token}
        address = str(self.metadata.revocation_endpoint)
        return await self.http.send(_authenticated(address, client, form))


def client_metadata(server: str, redirect_uri: str) -> OAuthClientMetadata:
    """What searchbus says of itself as a client; people read for which server, when they agree."""
    return OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)],
        client_name=f"searchbus ({server})",
        application_type="native" if redirect_uri.startswith("http://") else "web",
    )


async def discover(http: AuthHttp, server: Server) -> AuthorizationProvider:
    """The authorization server of a server, which is asked for it without credentials.

    Args:
        server: its variables are expanded.

    Raises:
        AuthError: it names no authorization server, or another one than the declared issuer, or
            what they state does not fit.
    """
    assert server.auth is not None
    url, auth = server.url, server.auth
    plain = "http://" in (url[:7], auth.issuer[:7])
    challenge = await http.send(
        httpx2.Request("GET", url, headers={"Accept": "text/event-stream"}), with_body=False
    )
    described = await _protected_resource(http, url, challenge)
    resource = resource_url_from_server_url(url)
    scope = extract_scope_from_www_auth(challenge) or ""
    if described is not None:
        stated = str(described.resource)
        if not check_resource_allowed(resource, stated):
            raise AuthError(f"its metadata are of another resource, {shown(stated)}")
        resource = stated
        scope = scope or " ".join(described.scopes_supported or ())
    issuer = _issuer(url, auth.issuer, described)
    check_address(issuer, plain)
    metadata = await _metadata(http, url, issuer)
    if metadata is None and described is None and not auth.issuer:
        raise AuthError("it names no authorization server; set 'issuer'")
    if metadata is None:
        raise AuthError(f"{shown(issuer)} publishes no metadata of an authorization server")
    for endpoint in (
        metadata.authorization_endpoint, metadata.token_endpoint,
        metadata.registration_endpoint, metadata.revocation_endpoint,
    ):  # fmt: skip
        if endpoint is not None:
            check_address(str(endpoint), plain)
    return AuthorizationProvider(
        http, metadata, auth, auth.resource or resource, " ".join(auth.scopes) or scope
    )


def check_address(url: str, plain: bool) -> None:
    """Raise AuthError for an address of an authorization server that may not be asked; http is
    allowed where the declaration uses it (`plain`)."""
    parts = urlsplit(url)
    if "@" in parts.netloc or not (parts.scheme == "https" or (plain and parts.scheme == "http")):
        raise AuthError(f"the address {shown(url)} of its authorization server is not https")
    if len(url) > _MAX_ADDRESS_CHARS:  # httpx2 makes no request of one
        raise AuthError("the address of its authorization server is too long")


async def _protected_resource(
    http: AuthHttp, url: str, challenge: httpx2.Response
) -> ProtectedResourceMetadata | None:
    named = extract_resource_metadata_from_www_auth(challenge)
    if named is not None and not _is_of(named, url):
        named = None  # a server must not choose which other hosts we ask
    for address in build_protected_resource_metadata_discovery_urls(named, url):
        response = await http.send(create_oauth_metadata_request(address))
        if response.is_server_error or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            raise AuthError(f"its metadata cannot be read (HTTP {response.status_code})")
        found = await handle_protected_resource_response(response)
        if found is not None:
            return found
    return None


def _issuer(url: str, declared: str, described: ProtectedResourceMetadata | None) -> str:
    """The issuer whose metadata are read."""
    if described is None:
        return declared or str(httpx2.URL(url).join("/"))
    advertised = [str(server) for server in described.authorization_servers]
    if not declared:
        return advertised[0]
    for found in advertised:
        if issuers_match(found, declared):
            return found
    raise AuthError(
        f"its authorization server is {shown(advertised[0])}, which is not the declared issuer; "
        "nothing was sent there"
    )


async def _metadata(http: AuthHttp, url: str, issuer: str) -> OAuthMetadata | None:
    for address in build_oauth_authorization_server_metadata_discovery_urls(issuer, url):
        response = await http.send(create_oauth_metadata_request(address))
        goes_on, found = await handle_auth_metadata_response(response)
        if not goes_on:
            raise AuthError(f"{shown(issuer)} cannot be asked (HTTP {response.status_code})")
        if found is None:
            continue
        if not issuers_match(str(found.issuer), issuer):
            stated = shown(found.issuer)
            raise AuthError(f"{shown(issuer)} says that it is another issuer, {stated}")
        return found
    return None


def _is_of(found: str, url: str) -> bool:
    """Whether an address that a server names is of the server's own origin."""
    try:
        httpx2.URL(found)
        return shown(found).lower() == shown(url).lower()
    except (ValueError, httpx2.InvalidURL):  # it is not an address
        return False


def _authenticated(
    address: str, client: OAuthClientInformationFull, form: dict[str, str]
) -> httpx2.Request:
    """A request with the client's authentication (RFC 6749, 2.3.1)."""
    context = OAuthContext(
        server_url=address,
        client_metadata=OAuthClientMetadata(redirect_uris=None),
        storage=None,  # type: ignore[arg-type]  # only the authentication of a request is used
        redirect_handler=None,
        callback_handler=None,
        client_info=client,
    )
    data, headers = context.prepare_token_auth(form, {})
    if "Authorization" not in headers:
        data["client_id"] = client.client_id
    return httpx2.Request("POST", address, data=data, headers=headers)


def _error_code(response: httpx2.Response) -> str:
    """Its `error`, where it is a plain word: descriptions are text of others."""
    try:
        found = msgspec.json.decode(response.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    code = found.get("error") if isinstance(found, dict) else None
    return code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""

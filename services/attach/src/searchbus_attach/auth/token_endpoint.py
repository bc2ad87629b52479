"""Requests to a token endpoint: who we are, what is granted, what comes back (RFC 6749)."""

from __future__ import annotations

import re
import time

import httpx2
import msgspec
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from msgspec import Struct
from pydantic import ValidationError

from .discovery import Provider
from .faults import AuthFault
from .http import AuthHttp, shown

__all__ = ["Refused", "Tokens", "authenticated", "client_of", "request_tokens"]

_MARGIN_S = 60.0
_LONGEST_S = 10 * 365 * 86_400
"""A number of a thousand digits is no time."""
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")
_TOKEN = re.compile(r"[!-~]+")
"""What can stand in a header; RFC 6750 allows less."""


class Tokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens for one server.

    Args:
        expires_s: seconds of the epoch; None where the authorization server does not say it.
        issuer: that issued them, for refreshing.
        target: the server that they are for (`Server.target`), where they are kept in a file.
    """

    access_token: str
    expires_s: float | None = None
    issued_s: float = 0.0
    refresh_token: str = ""
    scope: str = ""
    issuer: str = ""
    target: str = ""

    def __repr__(self) -> str:
        return "Tokens(...)"

    def ends_soon(self, now_s: float) -> bool:
        """Whether it is time for another: a minute before its end, or in the last tenth of a
        shorter life.
        """
        if self.expires_s is None:
            return False
        life_s = self.expires_s - self.issued_s
        return now_s > self.expires_s - min(_MARGIN_S, life_s / 10)

    def expired(self, now_s: float) -> bool:
        """Whether it is of no more use."""
        return self.expires_s is not None and now_s > self.expires_s


class Refused(AuthFault):
    """The authorization server refuses the request.

    Args:
        code: the error of RFC 6749, 5.2; empty where the answer has none.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def client_of(provider: Provider, client_id: str, client_secret: str) -> OAuthClientInformationFull:
    """A client that is registered with an authorization server, and how it says who it is."""
    known = provider.metadata.token_endpoint_auth_methods_supported
    method = "none"
    if client_secret:
        basic = known is None or "client_secret_basic" in known
        method = "client_secret_basic" if basic else "client_secret_post"
    return OAuthClientInformationFull(
        client_id=client_id, client_secret=client_secret or None, token_endpoint_auth_method=method
    )


def authenticated(
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


async def request_tokens(
    http: AuthHttp, provider: Provider, client: OAuthClientInformationFull, form: dict[str, str]
) -> Tokens:
    """Ask for tokens.

    Args:
        form: of the grant; empty values are left out.

    Raises:
        Refused: the authorization server says no.
        AuthFault: it cannot be reached, or its answer has no token.
    """
    filled = {name: value for name, value in form.items() if value}
    address = str(provider.metadata.token_endpoint)
    response = await http.send(authenticated(address, client, filled))
    if not response.is_success:
        code = _error_code(response)
        raise Refused(
            f"{shown(address)} refuses a token ({code or f'HTTP {response.status_code}'})", code
        )
    try:
        found = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        raise AuthFault(f"{shown(address)} sent an answer without a usable bearer token") from None
    if not _TOKEN.fullmatch(found.access_token):
        raise AuthFault(f"{shown(address)} sent an answer without a usable bearer token")
    now_s = time.time()
    return Tokens(
        access_token=found.access_token,
        expires_s=None if found.expires_in is None else now_s + min(found.expires_in, _LONGEST_S),
        issued_s=now_s,
        refresh_token=found.refresh_token or "",
        scope=found.scope or form.get("scope", ""),
        issuer=provider.issuer,
    )


def _error_code(response: httpx2.Response) -> str:
    """Its `error`, where it is a plain word: descriptions are text of others."""
    try:
        found = msgspec.json.decode(response.content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    code = found.get("error") if isinstance(found, dict) else None
    return code if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""

"""Sign-in by a person: the authorization code flow with PKCE (RFC 6749, 4.1; RFC 7636).

    ticket → page that names server and caller → authorization server → callback → vault

Nothing is kept between the steps. The ticket, and later `state`, hold all of it, sealed with the
vault's key: any replica can take the next step, and requests without end fill no memory. `state`
is bound to the browser by a cookie, so that nobody can finish a sign-in in another's browser.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from urllib.parse import urlencode

import msgspec
from mcp.client.auth import OAuthFlowError, PKCEParameters
from mcp.client.auth.utils import validate_authorization_response_iss
from mcp.shared.auth import OAuthClientInformationFull
from msgspec import Struct

from ..declare.servers import Server
from .declaration import Auth
from .discovery import Provider, discover
from .faults import AuthFault, LoginRequired
from .grants import parameters
from .http import AuthHttp
from .registration import client_for
from .sealing import Sealer
from .token_endpoint import Refused, Tokens, client_of, request_tokens
from .vault import Vault

__all__ = ["Logins", "Ticket"]

TICKET_S = 15 * 60
_STATE_S = 10 * 60
_CALLBACK = "/callback"


class Ticket(Struct, frozen=True, kw_only=True):
    """Who may sign in to what, and until when (seconds of the epoch)."""

    server: str
    caller: str
    until_s: float


class _State(Struct, frozen=True, kw_only=True):
    server: str
    caller: str
    until_s: float
    verifier: str
    nonce_sha256: str
    issuer: str


class Logins:
    """The sign-ins of all servers.

    Args:
        address: of the pages, as browsers reach it, without a slash at the end.
    """

    def __init__(self, http: AuthHttp, vault: Vault, sealer: Sealer, address: str) -> None:
        self._http = http
        self.vault = vault
        self._sealer = sealer
        self._address = address
        self.redirect_uri = address + _CALLBACK

    def ticket(self, server: str, caller: str) -> str:
        """The address where a caller signs in to a server."""
        made = Ticket(server=server, caller=caller, until_s=time.time() + TICKET_S)
        return f"{self._address}/login/{self._sealer.seal('ticket', made)}"

    def read(self, text: str) -> Ticket:
        """A ticket from its address.

        Raises:
            LoginRequired: the ticket is not valid, or too old.
        """
        try:
            found = self._sealer.open("ticket", text, Ticket)
        except ValueError:
            raise LoginRequired("This address is not complete. Repeat the call.") from None
        if found.until_s < time.time():
            raise LoginRequired("This address is too old. Repeat the call for a new one.")
        return found

    async def depart(self, server: Server, auth: Auth, caller: str, nonce: str) -> str:
        """Begin a sign-in; where the browser goes.

        Args:
            nonce: of the browser's cookie.

        Raises:
            AuthFault: the authorization server cannot be used.
        """
        provider = await discover(self._http, server.url, auth.issuer)
        if "S256" not in (provider.metadata.code_challenge_methods_supported or ("S256",)):
            raise AuthFault("its authorization server does not support PKCE with S256")
        client = await self.client(server, auth, provider)
        pkce = PKCEParameters.generate()
        state = _State(
            server=server.name, caller=caller, until_s=time.time() + _STATE_S,
            verifier=pkce.code_verifier, nonce_sha256=_digest(nonce), issuer=provider.issuer,
        )  # fmt: skip
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
            "state": self._sealer.seal("state", state),
            **parameters(auth, provider),
        }
        query = urlencode({name: value for name, value in asked.items() if value})
        endpoint = str(provider.metadata.authorization_endpoint)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    def server_of(self, state: str, nonce: str) -> str:
        """The name of the server that a callback is for.

        Raises:
            LoginRequired: another browser began this sign-in, or it took too long.
        """
        return self._state(state, nonce).server

    async def arrive(
        self, server: Server, auth: Auth, *, state: str, nonce: str, code: str, issuer: str | None
    ) -> str:
        """End a sign-in; its tokens are in the vault then. Returns the caller.

        Args:
            nonce: of the cookie.
            issuer: that the callback names (RFC 9207); None where it names none.

        Raises:
            AuthFault: something does not fit, or the code is refused.
        """
        expected = self._state(state, nonce)
        provider = await discover(self._http, server.url, auth.issuer)
        try:
            validate_authorization_response_iss(issuer, provider.metadata)
        except OAuthFlowError:
            raise AuthFault("the answer is of another authorization server") from None
        if provider.issuer != expected.issuer or server.name != expected.server:
            raise AuthFault("the answer is of another authorization server")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": expected.verifier,
            "resource": parameters(auth, provider)["resource"],
        }
        client = await self.client(server, auth, provider)
        tokens = await request_tokens(self._http, provider, client, form)
        self._keep(server, expected.caller, tokens)
        return expected.caller

    async def tokens(self, server: Server, auth: Auth, caller: str, rejected: str) -> Tokens:
        """The tokens of a caller who signed in, refreshed where they must be.

        Raises:
            LoginRequired: there are none, or the sign-in has ended.
            AuthFault: the authorization server cannot be used now.
        """
        kept = self._kept(server, caller)
        if _lasts(kept, rejected):
            return kept
        async with self.vault.refreshing(server.name):
            kept = self._kept(server, caller)
            if _lasts(kept, rejected):  # another process got them meanwhile
                return kept
            if not kept.refresh_token:
                raise LoginRequired("the sign-in has ended")
            provider = await discover(self._http, server.url, auth.issuer)
            if provider.issuer != kept.issuer:
                raise LoginRequired("the server has another authorization server now")
            client = await self.client(server, auth, provider)
            form = {
                "grant_type": "refresh_token",
                "refresh_token": kept.refresh_token,
                "resource": parameters(auth, provider)["resource"],
            }
            try:
                renewed = await request_tokens(self._http, provider, client, form)
            except Refused as refused:
                if refused.code != "invalid_grant":
                    raise
                self.vault.remove(server.name, caller)
                raise LoginRequired("the sign-in has ended") from None
            # Not every authorization server sends all of it anew (RFC 6749, 6).
            renewed = msgspec.structs.replace(
                renewed,
                refresh_token=renewed.refresh_token or kept.refresh_token,
                scope=renewed.scope or kept.scope,
            )
            return self._keep(server, caller, renewed)

    def _kept(self, server: Server, caller: str) -> Tokens:
        """The tokens in the vault; raises LoginRequired where there are none for this server."""
        found = self.vault.get(server.name, caller)
        if found is None:
            raise LoginRequired("nobody signed in")
        if found.target != server.target:
            # Another server was attached under the name.
            raise LoginRequired("the server has another address now")
        return found

    def _keep(self, server: Server, caller: str, tokens: Tokens) -> Tokens:
        kept = msgspec.structs.replace(tokens, target=server.target)
        self.vault.put(server.name, caller, kept)
        return kept

    async def client(
        self, server: Server, auth: Auth, provider: Provider
    ) -> OAuthClientInformationFull:
        """The client that is declared or registered. Raises AuthFault."""
        if auth.client_id:
            return client_of(provider, auth.client_id, auth.client_secret)
        return await client_for(self._http, self.vault, server.name, provider, self.redirect_uri)

    def _state(self, text: str, nonce: str) -> _State:
        try:
            found = self._sealer.open("state", text, _State)
        except ValueError:
            raise LoginRequired("This is not the end of a sign-in that began here.") from None
        if not hmac.compare_digest(found.nonce_sha256, _digest(nonce)):
            raise LoginRequired("This sign-in began in another browser. Begin again in this one.")
        if found.until_s < time.time():
            raise LoginRequired("The sign-in took too long. Begin again.")
        return found


def _lasts(kept: Tokens, rejected: str) -> bool:
    """Whether a token is good for more requests, or the best there can be."""
    now_s = time.time()
    if kept.access_token == rejected or kept.expired(now_s):
        return False
    return not (kept.ends_soon(now_s) and kept.refresh_token)


def _digest(nonce: str) -> str:
    return hashlib.sha256(nonce.encode()).hexdigest()

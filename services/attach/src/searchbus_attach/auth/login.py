"""Sign-in by a person: the authorization code flow with PKCE (RFC 6749, 4.1; RFC 7636).

    ticket → page that names server and caller → authorization server → callback → vault

Nothing is kept between the steps. The ticket, and later `state`, hold all of it, sealed with the
vault's key: any replica can take the next step, and requests without end fill no memory. `state`
is bound to the browser by a cookie, so that nobody can finish a sign-in in another's browser.

Each server has a redirect URI and a client metadata document of its own (RFC 9700, 4.4.2): an
authorization server that sends the browser on to another one, as the client that we are there, gets
no code, also where that other one sends no `iss`. No such address lies below the one of another
server, for providers that allow what lies below an address that they know.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from urllib.parse import urlencode

import msgspec
from mcp.client.auth import OAuthFlowError, PKCEParameters
from mcp.client.auth.utils import (
    create_client_info_from_metadata_url,
    issuers_match,
    should_use_client_metadata_url,
    validate_authorization_response_iss,
)
from mcp.shared.auth import OAuthClientInformationFull
from msgspec import Struct

from ..declare.servers import Server
from ..errors import AuthError, LoginRequiredError
from .provider import (
    TOKEN,
    AuthHttp,
    AuthorizationProvider,
    TokenRefusedError,
    client_metadata,
    discover,
)
from .vault import Registered, Tokens, Vault

NAME_PLACE = "{server}"
"""Stands for a server's name in the address of its client metadata document."""
TICKET_S = 15 * 60
_STATE_S = 10 * 60
_MAX_KEY_CHARS = 4096
NO_LOGINS = (
    "nobody can sign in: set SEARCHBUS_ATTACH_VAULT_KEY and SEARCHBUS_ATTACH_LOGIN_PORT or "
    "SEARCHBUS_ATTACH_LOGIN_URL"
)


class Ticket(Struct, frozen=True, kw_only=True):
    """Who may sign in to what, and until when (seconds of the epoch)."""

    server: str
    caller: str
    until_s: float


class PendingLogin(Ticket, frozen=True, kw_only=True):
    """What `state` holds: a sign-in that began, and the browser, issuer and client of its end."""

    verifier: str
    nonce_sha256: str
    issuer: str
    client_id: str


class Logins:
    """The sign-ins of all servers.

    Args:
        address: of the pages, as browsers reach it, without a slash at the end.
        documents: the address of a server's client metadata document, with NAME_PLACE. It is the
            `client_id` where an authorization server supports that; empty: there is none.
    """

    def __init__(self, http: AuthHttp, vault: Vault, address: str, documents: str = "") -> None:
        self._http = http
        self.vault = vault
        self.address = address
        self._documents = documents

    def redirect_uri(self, server: str) -> str:
        """Where an authorization server sends the browser back to, after a sign-in to a server."""
        return f"{self.address}/servers/{server}/callback"

    def document(self, server: str) -> str:
        """The address of a server's client metadata document; empty where there is none."""
        return self._documents.replace(NAME_PLACE, server)

    def client_document(self, server: str) -> dict[str, object]:
        """The client metadata document of a server, whose place is `document`."""
        stated = client_metadata(server, self.redirect_uri(server))
        return {
            "client_id": self.document(server),
            **stated.model_dump(mode="json", exclude_none=True),
            "token_endpoint_auth_method": "none",
        }

    def ticket(self, server: str, caller: str) -> str:
        """The address where a caller signs in to a server."""
        made = Ticket(server=server, caller=caller, until_s=time.time() + TICKET_S)
        return f"{self.address}/login/{self.vault.sealer.seal('ticket', made)}"

    def read(self, text: str) -> Ticket:
        """A ticket from its address.

        Raises:
            LoginRequiredError: the ticket is not valid, or too old.
        """
        try:
            found = self.vault.sealer.open("ticket", text, Ticket)
        except ValueError:
            raise LoginRequiredError("This address is not complete. Repeat the call.") from None
        if found.until_s < time.time():
            raise LoginRequiredError("This address is too old. Repeat the call for a new one.")
        return found

    async def begin(self, server: Server, caller: str, nonce: str) -> str:
        """Begin a sign-in; where the browser goes.

        Args:
            nonce: of the browser's cookie.

        Raises:
            AuthError: the authorization server cannot be used.
        """
        provider = await discover(self._http, server)
        # Without the list it does not support PKCE, and the specification says to go no further.
        if "S256" not in (provider.metadata.code_challenge_methods_supported or ()):
            raise AuthError(
                "its authorization server does not say that it supports PKCE with S256; it must "
                "list that in 'code_challenge_methods_supported'"
            )
        client = await self._new_client(server, provider)
        pkce = PKCEParameters.generate()
        pending = PendingLogin(
            server=server.name, caller=caller, until_s=time.time() + _STATE_S,
            verifier=pkce.code_verifier, nonce_sha256=_digest(nonce), issuer=provider.issuer,
            client_id=client.client_id,
        )  # fmt: skip
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self.redirect_uri(server.name),
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
            "state": self.vault.sealer.seal("state", pending),
            **provider.parameters,
        }
        query = urlencode({name: value for name, value in asked.items() if value})
        endpoint = str(provider.metadata.authorization_endpoint)
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    def pending(self, state: str, nonce: str) -> PendingLogin:
        """The sign-in that a callback is for; raises LoginRequiredError where another browser (by
        its cookie's nonce) began it, or it took too long."""
        try:
            found = self.vault.sealer.open("state", state, PendingLogin)
        except ValueError:
            raise LoginRequiredError("This is not the end of a sign-in that began here.") from None
        if not hmac.compare_digest(found.nonce_sha256, _digest(nonce)):
            raise LoginRequiredError(
                "This sign-in began in another browser. Begin again in this one."
            )
        if found.until_s < time.time():
            raise LoginRequiredError("The sign-in took too long. Begin again.")
        return found

    async def finish(
        self, server: Server, pending: PendingLogin, *, came_to: str, code: str, issuer: str | None
    ) -> None:
        """End a sign-in; its tokens are in the vault then.

        Args:
            server: the one that the sign-in names.
            came_to: the server whose redirect URI the browser came back to.
            issuer: that the callback names (RFC 9207); None where it names none.

        Raises:
            AuthError: something does not fit, or the code is refused.
        """
        if came_to != server.name:
            raise AuthError(
                "its authorization server sent you on to the one of another server; ask who "
                f"attached {server.name} before you sign in to it again"
            )
        provider = await discover(self._http, server)
        try:
            validate_authorization_response_iss(issuer, provider.metadata)
        except OAuthFlowError:
            raise AuthError("the answer is of another authorization server") from None
        if provider.issuer != pending.issuer:
            raise AuthError("the answer is of another authorization server")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri(server.name),
            "code_verifier": pending.verifier,
            "resource": provider.resource,
        }
        client = self._client(server, provider, pending.client_id)
        try:
            tokens = await provider.tokens(client, form)
        except TokenRefusedError as refused:
            self._forget_refused(server, client, refused)
            raise
        self._keep(server, pending.caller, tokens)

    def keep_key(self, server: Server, caller: str, key: str) -> None:
        """Keep the key that a person entered; raises LoginRequiredError for one that is none."""
        if not 0 < len(key) <= _MAX_KEY_CHARS or not TOKEN.fullmatch(key):
            raise LoginRequiredError("This is not a key that can be sent. Copy it again.")
        self._keep(server, caller, Tokens(access_token=key, issued_s=time.time()))

    async def tokens(self, server: Server, caller: str, rejected: str) -> Tokens:
        """The tokens of a caller who signed in, refreshed where they must be.

        Raises:
            LoginRequiredError: there are none, or the sign-in has ended.
            AuthError: the authorization server cannot be used now.
        """
        kept = self._kept(server, caller)
        if _lasts(kept, rejected):
            return kept
        async with self.vault.asking(server.name):
            kept = self._kept(server, caller)
            if _lasts(kept, rejected):  # another process got them meanwhile
                return kept
            if not kept.refresh_token:
                raise LoginRequiredError("the sign-in has ended")
            provider = await discover(self._http, server)
            if provider.issuer != kept.issuer:
                raise LoginRequiredError("the server has another authorization server now")
            client = self._client(server, provider, kept.client_id)
            form = {
                "grant_type": "refresh_token",
                "refresh_token": kept.refresh_token,
                "resource": provider.resource,
            }
            try:
                renewed = await provider.tokens(client, form)
            except TokenRefusedError as refused:
                is_forgotten = self._forget_refused(server, client, refused)
                if refused.code != "invalid_grant" and not is_forgotten:
                    raise
                if (newer := self._kept(server, caller)) != kept:  # the person signed in meanwhile
                    return newer
                self.vault.remove(server.name, caller)
                raise LoginRequiredError("the sign-in has ended") from None
            if (newer := self._kept(server, caller)) != kept:  # or signed out: that stays
                return newer
            # Not every authorization server sends a new one (RFC 6749, 6).
            refresh_token = renewed.refresh_token or kept.refresh_token
            renewed = msgspec.structs.replace(renewed, refresh_token=refresh_token)
            return self._keep(server, caller, renewed)

    async def revoke(self, server: Server, tokens: Tokens) -> str:
        """Revoke tokens that are not in the vault any more (RFC 7009); what became of them, for
        people. It is the last thing that these sign-ins do: their connections are closed.
        """
        if server.auth is not None and server.auth.is_key:
            return "forgotten; revoke the key where you got it"
        try:
            provider = await discover(self._http, server)
            if provider.metadata.revocation_endpoint is None or provider.issuer != tokens.issuer:
                return "forgotten; its provider revokes no tokens"
            client = self._client(server, provider, tokens.client_id)
            response = await provider.revoke(client, tokens)
        except AuthError as error:
            return f"forgotten, not revoked: {error}"
        finally:
            await self._http.aclose()
        if not response.is_success:
            return f"forgotten, not revoked: HTTP {response.status_code}"
        return "forgotten and revoked"

    async def _new_client(
        self, server: Server, provider: AuthorizationProvider
    ) -> OAuthClientInformationFull:
        """What searchbus is to an authorization server at a new sign-in: the client that is
        declared, the one of its metadata document, or one that registers itself.
        """
        if provider.auth.client_id:
            return provider.declared_client()
        document, redirect_uri = self.document(server.name), self.redirect_uri(server.name)
        if should_use_client_metadata_url(provider.metadata, document):
            return create_client_info_from_metadata_url(document)
        async with self.vault.asking(server.name):
            known = self.vault.client(server.name)
            if known is not None and known.redirect_uri == redirect_uri:
                registered = _registered(known, provider)
                # Until its secret expires; 0 is the end of none (RFC 7591, 3.2.1).
                ends_s = (registered and registered.client_secret_expires_at) or math.inf
                if registered is not None and ends_s >= time.time():
                    return registered
            found = await provider.register(server.name, redirect_uri)
            record = Registered(
                issuer=provider.issuer,
                redirect_uri=redirect_uri,
                information=found.model_dump(mode="json", exclude_none=True),
            )
            self.vault.put_client(server.name, record)
            return found

    def _client(
        self, server: Server, provider: AuthorizationProvider, client_id: str
    ) -> OAuthClientInformationFull:
        """The client that began a sign-in, or to which tokens were issued: no other can use them.
        Raises LoginRequiredError where it is not known any more."""
        known, document = self.vault.client(server.name), self.document(server.name)
        for client in (
            provider.declared_client() if provider.auth.client_id else None,
            _registered(known, provider) if known is not None else None,
            create_client_info_from_metadata_url(document) if document else None,
        ):
            if client is not None and client_id == client.client_id:
                return client
        raise LoginRequiredError("the sign-in has ended: its client is not known any more")

    def _forget_refused(
        self, server: Server, client: OAuthClientInformationFull, refused: TokenRefusedError
    ) -> bool:
        """Whether the authorization server does not know a registered client any more; it is
        forgotten, and the next sign-in registers another.
        """
        known = self.vault.client(server.name)
        if refused.code != "invalid_client" or known is None or known.client_id != client.client_id:
            return False
        self.vault.remove_client(server.name)
        return True

    def _kept(self, server: Server, caller: str) -> Tokens:
        """The tokens in the vault; raises LoginRequiredError where there are none for this
        server.
        """
        found = self.vault.get(server.name, caller)
        if found is None:
            raise LoginRequiredError("nobody signed in")
        if found.target != server.target:
            # Another server was attached under the name.
            raise LoginRequiredError("the server has another address now")
        return found

    def _keep(self, server: Server, caller: str, tokens: Tokens) -> Tokens:
        kept = msgspec.structs.replace(tokens, target=server.target)
        self.vault.put(server.name, caller, kept)
        return kept


def _lasts(kept: Tokens, rejected: str) -> bool:
    """Whether a token is good for more requests, or the best there can be."""
    now_s = time.time()
    if kept.access_token == rejected or kept.expired(now_s):
        return False
    return not (kept.ends_soon(now_s) and kept.refresh_token)


def _registered(
    known: Registered, provider: AuthorizationProvider
) -> OAuthClientInformationFull | None:
    """A registered client, where it is one of this authorization server."""
    if not issuers_match(known.issuer, provider.issuer):
        return None
    return OAuthClientInformationFull.model_validate(known.information)


def _digest(nonce: str) -> str:
    return hashlib.sha256(nonce.encode()).hexdigest()

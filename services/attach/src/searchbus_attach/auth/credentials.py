"""What each attached server and caller is signed in with.

    auth = credentials.auth_for(server, caller)      # for the HTTP client of a connection
    await credentials.check(server, caller)          # before a call: Fault(login_required), at once

A caller is the subject of the edge's `Actor`; the empty one stands for searchbus itself, whose
connection reads the lists and serves servers that all callers share.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from searchbus_contracts import ErrorCode, Fault

from ..declare.servers import DeclarationFault, Server, variable
from .bearer import BearerAuth
from .declaration import OURSELVES, Auth
from .faults import AuthFault, LoginRequired
from .grants import client_credentials, token_exchange
from .http import AuthHttp
from .identity import Identity
from .login import Logins
from .measuring import count_token
from .token_endpoint import Tokens
from .token_source import TokenSource

__all__ = ["NO_LOGINS", "Credentials"]

_OUR_SUBJECT = "searchbus"
"""As whom the list is read, where a token says who the caller is."""
_MOST_SOURCES = 10_000
NO_LOGINS = (
    "nobody can sign in: set SEARCHBUS_ATTACH_VAULT_KEY and SEARCHBUS_ATTACH_LOGIN_PORT or "
    "SEARCHBUS_ATTACH_LOGIN_URL"
)


class Credentials:
    """The tokens of all servers and callers.

    Args:
        http: for requests to authorization servers.
        logins: where people sign in; None: they cannot.
        identity: states who a caller is; None: it cannot be stated.
        lookup: the values of `${NAME}`.
    """

    def __init__(
        self,
        http: AuthHttp | None = None,
        *,
        logins: Logins | None = None,
        identity: Identity | None = None,
        lookup: Callable[[str], str | None] = variable,
    ) -> None:
        self._http = http or AuthHttp()
        self.logins = logins
        self._identity = identity
        self._lookup = lookup
        self._sources: OrderedDict[tuple[str, str], tuple[Server, TokenSource]] = OrderedDict()

    def auth_for(self, server: Server, caller: str = OURSELVES) -> BearerAuth | None:
        """What signs the requests of a connection; None where the server has no `auth`.

        Raises:
            DeclarationFault: a variable has no value.
        """
        if server.auth is None:
            return None
        url = server.expanded(self._lookup).url
        return BearerAuth(url, self._source(server, server.auth, caller))

    async def check(self, server: Server, caller: str = OURSELVES) -> None:
        """Find out before a call whether there is a token for it.

        Raises:
            Fault: login_required, with the address to open; unavailable where it cannot be known.
        """
        if server.auth is None:
            return
        try:
            await self._source(server, server.auth, caller).token()
        except LoginRequired as required:
            raise self._login_required(server, caller, required) from None
        except AuthFault as fault:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{server.name} cannot be used now: {fault}. Try again later.",
            ) from None

    def stamp(self) -> object:
        """Changes when somebody signs in or out; also while the file cannot be read."""
        try:
            return None if self.logins is None else self.logins.vault.stamp()
        except AuthFault as fault:
            return str(fault)

    async def aclose(self) -> None:
        """Close the connections to authorization servers, after the requests that run."""
        await asyncio.gather(*(source.settle() for _, source in self._sources.values()))
        await self._http.aclose()

    def _source(self, server: Server, auth: Auth, caller: str) -> TokenSource:
        key = server.name, caller
        known = self._sources.get(key)
        if known is not None and known[0] == server:
            self._sources.move_to_end(key)
            return known[1]
        made = TokenSource(
            self._counted(server.name, auth.type, self._fetch(server, caller)),
            version=self.stamp if auth.type == "authorization_code" else lambda: None,
        )
        self._sources[key] = server, made
        if len(self._sources) > _MOST_SOURCES:
            self._sources.popitem(last=False)
        return made

    def _fetch(self, server: Server, caller: str) -> Callable[[str], Awaitable[Tokens]]:
        async def fetch(rejected: str) -> Tokens:
            try:
                # Each time: a secret may be replaced while the service runs.
                expanded = server.expanded(self._lookup)
            except (DeclarationFault, OSError) as fault:
                raise AuthFault(str(fault)) from None
            assert expanded.auth is not None
            return await self._request(expanded, expanded.auth, caller, rejected)

        return fetch

    async def _request(self, server: Server, auth: Auth, caller: str, rejected: str) -> Tokens:
        if auth.type == "client_credentials":
            return await client_credentials(self._http, server, auth)
        if auth.type == "token_exchange":
            if caller == _OUR_SUBJECT:
                raise AuthFault(f"the subject {_OUR_SUBJECT!r} stands for searchbus itself")
            return await token_exchange(
                self._http, server, auth, self._identity, caller or _OUR_SUBJECT
            )
        if self.logins is None:
            raise AuthFault(NO_LOGINS)
        try:
            return await self.logins.tokens(server, auth, caller, rejected)
        except LoginRequired as required:
            if caller != OURSELVES:
                raise
            raise LoginRequired(f"{required}: searchbus attach login {server.name}") from None

    def _counted(
        self, server: str, kind: str, fetch: Callable[[str], Awaitable[Tokens]]
    ) -> Callable[[str], Awaitable[Tokens]]:
        async def counted(rejected: str) -> Tokens:
            outcome = "failed"
            try:
                tokens = await fetch(rejected)
                outcome = "ok"
                return tokens
            except LoginRequired:
                outcome = "login_required"
                raise
            finally:
                count_token(server, kind, outcome)

        return counted

    def _login_required(self, server: Server, caller: str, required: LoginRequired) -> Fault:
        if caller == OURSELVES or self.logins is None:
            message = f"{server.name} needs a sign-in by the operator: {required}."
        else:
            message = (
                f"{server.name} needs your sign-in ({required}). Open this address in a browser, "
                f"then repeat the call: {self.logins.ticket(server.name, caller)}"
            )
        return Fault(ErrorCode.LOGIN_REQUIRED, message)

"""What each attached server and caller is signed in with.

    token = credentials.token_for(server, caller)    # for the requests of a connection
    await credentials.check(server, caller)          # before a call: Fault(login_required), at once

A caller is the subject of the edge's `Actor`; the empty one stands for searchbus itself, whose
connection reads the lists and serves servers that all callers share.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from searchbus_contracts import ErrorCode, Fault

from ..declare.auth_methods import OURSELVES, Auth
from ..declare.servers import Server, variable
from ..errors import AuthError, LoginRequiredError, ServerDeclarationError
from ..metrics import count
from .keys import ServiceIdentity
from .login import NO_LOGINS, Logins
from .provider import AuthHttp, discover
from .vault import Tokens

_MOST_SOURCES = 10_000
_FRESH_S = 5.0
"""A token that the server rejects so early after its issue is not replaced: the next one would be
rejected as well."""
_FAILED_S = 2.0
"""So long a failure is the answer to all who ask."""
_SETTLE_S = 5.0
_OUR_SUBJECT = "searchbus"
"""As whom the list is read, where a token says who the caller is."""
_TOKEN_TYPES = "urn:ietf:params:oauth:token-type"  # noqa: S105  (a name of RFC 8693)


class Credentials:
    """The tokens of all servers and callers.

    Args:
        http: for requests to authorization servers.
        logins: where people sign in; None: they cannot.
        identity: states who a caller is; None: it cannot be stated.
    """

    def __init__(
        self,
        http: AuthHttp | None = None,
        *,
        logins: Logins | None = None,
        identity: ServiceIdentity | None = None,
    ) -> None:
        self._http = http or AuthHttp()
        self.logins = logins
        self._identity = identity
        self._sources: OrderedDict[tuple[str, str], tuple[Server, TokenSource]] = OrderedDict()

    def token_for(
        self, server: Server, caller: str = OURSELVES
    ) -> Callable[[str], Awaitable[str]] | None:
        """What gets tokens for a connection (`TokenSource.token`); None where the server has no
        `auth`.
        """
        return None if server.auth is None else self._source(server, server.auth, caller).token

    async def check(self, server: Server, caller: str = OURSELVES) -> None:
        """Find out before a call whether there is a token for it; raises Fault(login_required) with
        the address to open, or unavailable where it cannot be known."""
        if server.auth is None:
            return
        try:
            await self._source(server, server.auth, caller).token()
        except LoginRequiredError as required:
            raise self._login_required(server, caller, required) from None
        except AuthError as error:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{server.name} cannot be used now: {error}. Try again later.",
            ) from None

    def stamp(self) -> object:
        """Changes when somebody signs in or out; also while the file cannot be read."""
        try:
            return None if self.logins is None else self.logins.vault.stamp()
        except AuthError as error:
            return str(error)

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
            functools.partial(self._fetch, server, auth, caller),
            version=self.stamp if auth.method.by_person else lambda: None,
        )
        self._sources[key] = server, made
        if len(self._sources) > _MOST_SOURCES:
            self._sources.popitem(last=False)
        return made

    async def _fetch(self, server: Server, auth: Auth, caller: str, rejected: str) -> Tokens:
        outcome = "failed"
        try:
            server = self._expanded(server)
            if auth.method.by_person:
                tokens = await self._of_person(server, caller, rejected)
            elif auth.method.for_each_caller:
                tokens = await self._exchanged(server, caller)
            else:
                tokens = await self._own(server)
            outcome = "ok"
            return tokens
        except LoginRequiredError:
            outcome = "login_required"
            raise
        finally:
            count("tokens", server=server.name, type=auth.type, outcome=outcome)

    async def _own(self, server: Server) -> Tokens:
        """A token for searchbus itself (RFC 6749, 4.4)."""
        provider = await discover(self._http, server)
        form = {"grant_type": "client_credentials", **provider.parameters}
        return await provider.tokens(provider.declared_client(), form)

    async def _exchanged(self, server: Server, caller: str) -> Tokens:
        """A token that says who the caller is, for our own statement of that (RFC 8693)."""
        if caller == _OUR_SUBJECT:
            raise AuthError(f"the subject {_OUR_SUBJECT!r} stands for searchbus itself")
        if self._identity is None:
            raise AuthError("callers cannot be stated: set SEARCHBUS_ATTACH_IDENTITY_KEY")
        provider = await discover(self._http, server)
        statement = self._identity.statement(caller or _OUR_SUBJECT, provider.issuer)
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": statement,
            "subject_token_type": f"{_TOKEN_TYPES}:jwt",
            "requested_token_type": f"{_TOKEN_TYPES}:access_token",
            "audience": provider.auth.audience,
            **provider.parameters,
        }
        return await provider.tokens(provider.declared_client(), form)

    async def _of_person(self, server: Server, caller: str, rejected: str) -> Tokens:
        """The tokens of a person who signed in, or the key that a person entered."""
        if self.logins is None:
            raise AuthError(NO_LOGINS)
        try:
            return await self.logins.tokens(server, caller, rejected)
        except LoginRequiredError as required:
            if caller != OURSELVES:
                raise
            command = f"searchbus attach login {server.name}"
            raise LoginRequiredError(f"{required}: {command}") from None

    def _expanded(self, server: Server) -> Server:
        # For each request: a secret may be replaced while the service runs.
        try:
            return server.expanded(variable)
        except (ServerDeclarationError, OSError) as error:
            raise AuthError(str(error)) from None

    def _login_required(self, server: Server, caller: str, required: LoginRequiredError) -> Fault:
        if caller == OURSELVES or self.logins is None:
            message = f"{server.name} needs a sign-in by the operator: {required}."
        else:
            message = (
                f"{server.name} needs your sign-in ({required}). Open this address in a browser, "
                f"then repeat the call: {self.logins.ticket(server.name, caller)}"
            )
        return Fault(ErrorCode.LOGIN_REQUIRED, message)


class TokenSource:
    """The tokens of one identity at one server: one that is kept until shortly before it expires,
    and one request for a new one at a time.

    Args:
        fetch: gets tokens; raises AuthError. Its argument is an access token that the server
            rejected, or empty.
        version: what is kept is forgotten when its value changes.
        clock: seconds of the epoch.
    """

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[Tokens]],
        *,
        version: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fetch = fetch
        self._version = version
        self._clock = clock
        self._seen: object = version()
        self._tokens: Tokens | None = None
        self._failure: AuthError | None = None
        self._failed_s = 0.0
        self._renewal: asyncio.Task[str | AuthError] | None = None

    async def token(self, rejected: str = "") -> str:
        """A token to send.

        Args:
            rejected: that the server answered 401 to. The same one is returned where a new one
                would not help.

        Raises:
            AuthError: no token can be got now.
        """
        kept = self._usable(rejected)
        if kept is not None:
            return kept
        if self._renewal is None or self._renewal.done():
            # A task of its own, which nobody cancels: the request of a caller that gives up still
            # serves the others, and a refresh token counts once, so that its answer must be read.
            self._renewal = asyncio.get_running_loop().create_task(self._renew(rejected))
        found = await asyncio.shield(self._renewal)
        if isinstance(found, AuthError):
            raise found.with_traceback(None)
        return found

    async def settle(self) -> None:
        """Wait a while for the request that runs, if one does; then give it up."""
        if self._renewal is not None:
            _, late = await asyncio.wait([self._renewal], timeout=_SETTLE_S)
            for task in late:
                task.cancel()

    async def _renew(self, rejected: str) -> str | AuthError:
        kept = self._tokens
        # Before: what changes meanwhile, also by this request, is read again by the next one.
        self._seen = self._version()
        try:
            self._tokens = await self._fetch(rejected)
        except AuthError as error:
            now_s = self._clock()
            self._failure, self._failed_s = error, now_s
            if kept is None or kept.access_token == rejected or kept.expired(now_s):
                self._tokens = None
                return error
            return kept.access_token  # it lives a little longer
        self._failure = None
        return self._tokens.access_token

    def _usable(self, rejected: str) -> str | None:
        """The kept token, where no other is to be fetched; raises the last failure while it is
        new.
        """
        if self._version() != self._seen:
            self._tokens = self._failure = None
        now_s = self._clock()
        kept = self._tokens
        # A clock that is set back makes nothing new again.
        failed = self._failure is not None and abs(now_s - self._failed_s) < _FAILED_S
        if kept is not None and kept.access_token == rejected:
            if abs(now_s - kept.issued_s) <= _FRESH_S:
                return rejected
        elif kept is not None and not kept.expired(now_s) and (failed or not kept.ends_soon(now_s)):
            return kept.access_token
        if failed:
            assert self._failure is not None
            # Raised again and again, it would collect the frames of all callers.
            raise self._failure.with_traceback(None)
        return None

"""A token that is kept until shortly before it expires; one request for a new one at a time.

source = TokenSource(fetch)
token = await source.token()
token = await source.token(rejected=token)     # the server answered 401
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from .faults import AuthFault
from .token_endpoint import Tokens

__all__ = ["TokenSource"]

_FRESH_S = 5.0
"""A token that the server rejects so early after its issue is not replaced: the next one would be
rejected as well."""
_FAILED_S = 2.0
"""So long a failure is the answer to all who ask."""

_SETTLE_S = 5.0


class TokenSource:
    """The tokens of one identity at one server.

    Args:
        fetch: gets tokens; raises AuthFault. Its argument is an access token that the server
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
        self._failure: AuthFault | None = None
        self._failed_s = 0.0
        self._renewal: asyncio.Task[str | AuthFault] | None = None

    async def token(self, rejected: str = "") -> str:
        """A token to send.

        Args:
            rejected: that the server answered 401 to. The same one is returned where a new one
                would not help.

        Raises:
            AuthFault: no token can be got now.
        """
        while True:
            kept = self._usable(rejected)
            if kept is not None:
                return kept
            running = self._renewal
            if running is None or running.done():
                break
            await asyncio.wait([running])
        # A task of its own, which nobody cancels: the request of a caller that gives up still
        # serves the others, and a refresh token counts once, so that its answer must be read.
        self._renewal = asyncio.get_running_loop().create_task(self._renew(rejected))
        found = await asyncio.shield(self._renewal)
        if isinstance(found, AuthFault):
            raise found.with_traceback(None)
        return found

    async def settle(self) -> None:
        """Wait a while for the request that runs, if one does; then give it up."""
        if self._renewal is not None:
            _, late = await asyncio.wait([self._renewal], timeout=_SETTLE_S)
            for task in late:
                task.cancel()

    async def _renew(self, rejected: str) -> str | AuthFault:
        kept = self._tokens
        # Before: what changes meanwhile, also by this request, is read again by the next one.
        self._seen = self._version()
        try:
            self._tokens = await self._fetch(rejected)
        except AuthFault as fault:
            now_s = self._clock()
            self._failure, self._failed_s = fault, now_s
            if kept is None or kept.access_token == rejected or kept.expired(now_s):
                self._tokens = None
                return fault
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
        failed = self._failure is not None and now_s < self._failed_s + _FAILED_S
        if kept is not None and kept.access_token == rejected:
            if now_s <= kept.issued_s + _FRESH_S:
                return rejected
        elif kept is not None and not kept.expired(now_s) and (failed or not kept.ends_soon(now_s)):
            return kept.access_token
        if failed:
            assert self._failure is not None
            # Raised again and again, it would collect the frames of all callers.
            raise self._failure.with_traceback(None)
        return None

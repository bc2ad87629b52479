"""Who may see and do what in the console, see docs/guides/console.md.

Without sign-in every program of this machine reaches the edge, an attached server too, which must
not approve its own changes. The token shows that a caller can read the data folder; `searchbus
console` opens the page with it.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import Response

from searchbus_contracts import Actor, ErrorCode, Fault, decode, encode
from searchbus_contracts.headers import OPERATOR_ROLE

from ...auth.signing import StateKey, StateKeys, derived_key, to_base64url
from ...http.answer import INERT, DisconnectWatch, EventStream
from ...http.faults import HttpError
from ...http.head import Received
from ..calls import HttpCalls

audit = logging.getLogger("searchbus.audit")
TOKEN_HEADER = "searchbus-console"  # noqa: S105  (a header's name)


def console_token(key: bytes) -> str:
    """What shows that a caller can read the data folder, from the deployment's key (`load_key`)."""
    return to_base64url(derived_key(key, "console"))


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller of the console: `sees` what is about others, `manages` what it may change."""

    received: Received
    sees: bool
    manages: bool

    @property
    def actor(self) -> Actor:
        """Who it is."""
        return self.received.actor


T = TypeVar("T")


class Access:
    """Admits requests to the console, which go on to `calls`; `signed_in`: callers need a
    credential."""

    def __init__(self, calls: HttpCalls, key: StateKey, *, signed_in: bool) -> None:
        self.calls = calls
        self.signed_in = signed_in
        self._keys = StateKeys(key, "")

    async def visitor(self, request: Request) -> Visitor:
        """Who sends a request; raises HttpError."""
        received = await self.calls.admit(request.scope)
        sees = received.actor.holds((OPERATOR_ROLE,))
        given = request.headers.get(TOKEN_HEADER, "")
        proved = self.signed_in or any(
            hmac.compare_digest(given.encode(), console_token(key).encode())
            for key in self._keys.accepted()
        )
        return Visitor(received, sees, sees and proved)

    async def seer(self, request: Request) -> Visitor:
        """The same, where what is about others is shown; raises HttpError, Fault(forbidden)."""
        found = await self.visitor(request)
        if not found.sees:
            raise Fault(ErrorCode.FORBIDDEN, f"The role {OPERATOR_ROLE} is missing. Ask for it.")
        return found

    async def manager(self, request: Request) -> Visitor:
        """The same, where something is changed; raises HttpError, Fault(forbidden)."""
        found = await self.seer(request)
        if not found.manages:
            raise Fault(
                ErrorCode.FORBIDDEN,
                "This page may look, and change nothing. Run searchbus console, which opens one "
                "that may.",
            )
        return found

    async def body(self, visitor: Visitor, request: Request, kind: type[T]) -> T:
        """The JSON body as a Struct; raises HttpError, Fault(invalid_argument)."""
        # The media type makes a browser ask before it lets a page of another site send it.
        return decode(await self.calls.json(visitor.received, request.receive), kind)


API = "/console/api"


class Streamed(Response):
    """An answer that sends itself: `serve` gets `receive` and `send` of the ASGI request."""

    def __init__(self, serve: Callable[[Any, Any], Awaitable[None]]) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = []
        self._serve = serve

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        await self._serve(receive, send)


async def send_overview(
    changes: AsyncIterator[dict[str, Any]],
    admit: Callable[[], Awaitable[Any]],
    receive: Any,
    send: Any,
) -> None:
    """Send changes as events until the client leaves, or is no longer admitted, as with a key that
    was revoked meanwhile (`admit` raises HttpError)."""
    stream = EventStream(send, INERT)
    with DisconnectWatch(receive, stream):
        try:
            with suppress(HttpError):
                async for changed in changes:
                    await admit()
                    await stream.event(encode(changed), b"changes")
            await stream.end()
        finally:
            await changes.aclose()  # type: ignore[attr-defined]  # it is a generator

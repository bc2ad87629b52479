"""Bodies and event streams of the console's requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import Response

from searchbus_contracts import decode, encode
from searchbus_contracts.codec import long_integer

from ...http.answer import INERT, DisconnectWatch, EventStream
from ...http.faults import HttpError
from ...http.head import HttpRefusal
from ..calls import HttpCalls
from .access import Visitor

T = TypeVar("T")
API = "/console/api"


async def body_of(calls: HttpCalls, visitor: Visitor, request: Request, kind: type[T]) -> T:
    """The JSON body of a request as a Struct; raises HttpError, Fault(invalid_argument).

    The media type makes a browser ask before it lets a page of another site send it.
    """
    body = await calls.json(visitor.received, request.receive)
    if refused := long_integer(body):
        raise HttpError.of(HttpRefusal(400, refused))
    return decode(body, kind)


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


async def send_overview(changes: AsyncIterator[dict[str, Any]], receive: Any, send: Any) -> None:
    """Send changes as events until the client leaves."""
    stream = EventStream(send, INERT)
    with DisconnectWatch(receive, stream):
        try:
            async for changed in changes:
                await stream.event(encode(changed), b"changes")
            await stream.end()
        finally:
            await changes.aclose()  # type: ignore[attr-defined]  # it is a generator

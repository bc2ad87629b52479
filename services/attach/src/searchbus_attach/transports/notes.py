"""What the responses of a server at a URL say beside their messages, and how much they may be."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Collection
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2

from .budget import Budget
from .http import Http1Connection, Http1Response
from .http.client import BearerAuth

MAX_BODY_BYTES = 16 * 2**20
"""The limit of a response that is not an event stream."""
MAX_ERROR_BODY_BYTES = 64 * 1024
"""The limit of a response with an error status, which the SDK parses."""
_PIECE_BYTES = 4096
"""A part with many lines is passed on in pieces of this size: the SDK processes each line."""
_LINES_PER_MESSAGE = 8
"""So many lines of an event stream, or chunks of a body, cost as much work as one message."""
_EVENTS = "text/event-stream"
_LENGTH = re.compile(r"[0-9]{1,15}")
_LISTEN = "subscriptions/listen"
"""The message whose answer lasts as long as the session."""
STATUS: ContextVar[int] = ContextVar("status", default=0)
"""The last one in a task, of which the SDK has one for each request that it sends."""


class HttpNotes:
    """What the last responses said that the SDK does not pass on.

    Attributes:
        status: the status of the last response, 0 before one.
        auth: what signs the requests; None where nothing does.
        budget: what the server may send.
        unanswered: whether a message that was sent may have had no answer yet when the server could
            not be reached.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget("")
        self.status = 0
        self.auth: BearerAuth | None = None
        self.unanswered = False

    @property
    def advice(self) -> str:
        """A sentence where the server refuses who we are, or we are not signed in; empty
        otherwise.
        """
        if self.auth is not None and self.auth.problem:
            return self.auth.problem
        if self.status in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
            what = "set its 'headers' or 'auth'" if self.auth is None else "see its 'auth.scopes'"
            return f"it refuses the credentials (HTTP {self.status}); {what}"
        return ""

    def note_unreached(self, waiting: Collection[httpx2.Request]) -> None:
        """Note that no connection could be made; see `Http1Transport`."""
        if any(r.method == "POST" and r.headers.get("mcp-method") != _LISTEN for r in waiting):
            self.unanswered = True

    async def look_at(self, response: httpx2.Response) -> None:
        """Note the status, and limit the body; a hook of the HTTP client."""
        self.status = response.status_code
        STATUS.set(self.status)
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise httpx2.DecodingError(f"the response is encoded as {encoding[:40]}")
        if response.is_closed:
            return  # a small body that came with its head
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        most: float = min(MAX_BODY_BYTES, MAX_ERROR_BODY_BYTES if response.is_error else math.inf)
        stated = response.headers.get("content-length", "")
        response.stream = _Limited(
            response.stream, math.inf if _is_stream(response) else most, self.budget,
            response.extensions.get("connection"), int(stated) if _LENGTH.fullmatch(stated) else 0,
        )  # fmt: skip

    def paced(self, events: Http1Response) -> AsyncIterator[bytes]:
        """The parts of a stream of events, read by the budget."""
        return aiter(_Limited(events, math.inf, self.budget, events.connection, 0))


def _is_stream(response: httpx2.Response) -> bool:
    """Whether its events are read one by one. Every other body is read as a whole: that of a
    redirect, of a refusal, and where nobody asked for events.
    """
    if not response.is_success or not response.headers.get("content-type", "").startswith(_EVENTS):
        return False
    asked = response.request.headers.get("accept", "")
    return response.request.method != "DELETE" and _EVENTS in asked


@dataclass(eq=False)
class _Limited(httpx2.AsyncByteStream):
    """A body that is read by a budget, and fails where it is too large."""

    stream: httpx2.AsyncByteStream
    max_bytes: float
    budget: Budget
    connection: Http1Connection | None
    stated_bytes: int

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = seen_parts = 0
        # One that says before that it is too large is not read at all.
        self._check(self.stated_bytes)
        async for chunk in self.stream:
            size_bytes += len(chunk)
            self._check(size_bytes)
            lines = chunk.count(b"\n") + chunk.count(b"\r")
            if self.connection is not None:
                parts = self.connection.parts
                await self.budget.pace(0, (parts - seen_parts) / _LINES_PER_MESSAGE)
                seen_parts = parts
            # Pieces, so that a part with nothing but lines is not one long turn.
            step = _PIECE_BYTES if lines > _PIECE_BYTES else len(chunk)
            for start in range(0, len(chunk), step):
                piece = chunk[start : start + step]
                messages = lines * len(piece) / len(chunk) / _LINES_PER_MESSAGE
                await self.budget.pace(len(piece), messages)
                yield piece

    async def aclose(self) -> None:
        await self.stream.aclose()

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self.max_bytes:
            raise httpx2.StreamError(f"the response is larger than {self.max_bytes / 2**20:g} MiB")

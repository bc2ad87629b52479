"""HTTP answers: each knows how it is sent.

PlainAnswer     a whole answer; Tagged makes one that clients revalidate
EventStream     events; the response starts with the first of them
└── HttpAnswer  of MCP: plain JSON, or events from the first notification on
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from starlette.responses import Response

from .head import Head, Headers

PING_INTERVAL_S = 15.0
"""As the SDK does: a proxy closes streams that are silent for long."""
ADMIT_EVERY_S = 5.0
"""Between two looks at whether a caller may still listen."""
WATCH_AFTER_S = 0.02
"""Most requests end earlier, and need no task that waits for the client's disconnect."""
_JOINED_BYTES = 64 * 1024
"""A smaller body is one piece for the server."""

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
EVERY: Headers = ((b"x-content-type-options", b"nosniff"),)
"""On every answer of the edge: no browser guesses a type."""
INERT: Headers = ((b"content-security-policy", b"default-src 'none'; sandbox"),)
"""On text that others wrote: a browser must run nothing of it."""
UNTRUSTED: Headers = ((b"searchbus-untrusted", b"true"),)
"""On results with text that others wrote, as `_meta` says over MCP."""
_EVENTS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
    *EVERY,
)


class PlainAnswer(Response):
    """A whole answer, for FastAPI and ASGI; a large body is written in parts, never joined."""

    def __init__(
        self, *parts: bytes, status: int = 200, content_type: bytes = JSON, headers: Headers = ()
    ) -> None:
        self.status_code = status
        self.background = None
        self._parts = parts
        self._size_bytes = sum(map(len, parts))
        form: Headers = (
            (b"content-type", content_type),
            (b"content-length", b"%d" % self._size_bytes),
        )
        # In a 304 they would be those of the body that the client has (RFC 9110, 15.4.5).
        self.raw_headers = [*(form if status != 304 else ()), *EVERY, *headers]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        await self.send(send)

    async def send(self, send: Any) -> None:
        """Send it by the `send` of an ASGI request."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        parts = self._parts
        if self._size_bytes > _JOINED_BYTES:
            for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            parts = ()
        await send({"type": "http.response.body", "body": b"".join(parts)})


class Tagged(NamedTuple):
    """A body with its entity tag (RFC 9110, 8.8.3), so that a client need not read it again."""

    body: bytes
    tag: str

    @classmethod
    def of(cls, body: bytes) -> Tagged:
        """The body with a strong tag: equal tags are equal bytes."""
        return cls(body, f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"')

    def answer(
        self,
        if_none_match: str | None,
        *,
        cache: bytes = b"private, no-cache",
        content_type: bytes = JSON,
        headers: Headers = (),
    ) -> PlainAnswer:
        """The body, or 304 without one where the client (`If-None-Match`) has it.

        By default (`cache`) a client asks each time, and keeps what one caller sees for no other.
        """
        headers = ((b"etag", self.tag.encode()), (b"cache-control", cache), *headers)
        known = {tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")}
        if known & {self.tag, "*"}:
            return PlainAnswer(status=304, headers=headers)
        return PlainAnswer(self.body, content_type=content_type, headers=headers)


class EventStream:
    """An answer as an event stream, with further headers; lines of MCP's SDK end with CR LF."""

    __slots__ = ("_headers", "_line_end", "_lock", "_send", "started")

    def __init__(self, send: Any, headers: Headers = (), *, line_end: bytes = b"\n") -> None:
        self._send = send
        self._headers = headers
        self._line_end = line_end
        self._lock: asyncio.Lock | None = None
        self.started = False

    async def event(self, data: bytes, name: bytes = b"message", *, more: bool = True) -> None:
        """Send an event, whose data has no line breaks; the last one ends the stream."""
        end = self._line_end
        await self._write(b"event: %b%bdata: %b%b" % (name, end, data, end * 2), more=more)

    async def ping(self) -> None:
        """Send a comment, so that no proxy ends the connection."""
        await self._write(b": ping" + self._line_end * 2, more=True)

    async def end(self) -> None:
        """End the stream without a last event."""
        await self._write(b"", more=False)

    async def _write(self, data: bytes, *, more: bool) -> None:
        # A ping and an event can be sent at the same time, by different tasks.
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self.started:
                self.started = True
                try:
                    await self._send(
                        {
                            "type": "http.response.start", "status": 200,
                            "headers": [*_EVENTS, *self._headers],
                        }
                    )  # fmt: skip
                except BaseException:  # a task that is cancelled meanwhile has sent nothing
                    self.started = False
                    raise
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


class Answer(Protocol):
    """Where the messages of a request go; once `finished`, it is not cancelled any more."""

    finished: bool

    async def notify(self, message: bytes) -> None:
        """Send a JSON-RPC notification before the response."""

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        """Send the JSON-RPC response, in parts where it is large; empty for a notification."""


class HttpAnswer(EventStream):
    """The response to one HTTP request of MCP.

    It is plain JSON if the result is all there is to send. It becomes an event stream with the
    first notification before the result, or where the client accepts nothing else.
    """

    __slots__ = ("_events", "_json", "finished")

    def __init__(self, head: Head, send: Any) -> None:
        super().__init__(send, line_end=b"\r\n")
        self._json = head.accepts_json
        self._events = head.accepts_events
        self.finished = False

    async def notify(self, message: bytes) -> None:
        """See Answer; dropped where the client accepts no event stream."""
        if self._events:
            await self.event(message)

    async def ping(self) -> None:
        """See EventStream."""
        # A client that reads slowly can still be taking the result.
        if self._events and not self.finished:
            await super().ping()

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        """See Answer; a status other than 200 can be sent only where no stream has started."""
        self.finished = True
        if self.started or (any(parts) and status == 200 and not self._json):
            await self.event(b"".join(parts), more=False)
        else:
            await PlainAnswer(*parts, status=status).send(self._send)


class DisconnectWatch:
    """Cancels the current task when the client disconnects; sends pings while it waits.

        with DisconnectWatch(receive, answer) as watch:
            ...                     # ends without an error if the client disconnects (watch.gone)

    Args:
        receive: of the ASGI request, after the whole body was read.
        stream: gets the pings; None where the response has no form yet.
        admits: whether the caller may still listen; one who may not is as one who is gone.
    """

    __slots__ = ("_admits", "_receive", "_stream", "_task", "_timer", "_watched", "gone")

    def __init__(
        self,
        receive: Any,
        stream: EventStream | None,
        admits: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._receive = receive
        self._stream = stream
        self._admits = admits
        self._task: asyncio.Task[None] | None = None
        self.gone = False

    def __enter__(self) -> DisconnectWatch:
        self._watched = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._start)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        if not self.gone or self._watched is None:
            return False
        # Our own cancellation ends here; one from outside goes on.
        return self._watched.uncancel() == 0 and kind is asyncio.CancelledError

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        receiving = asyncio.ensure_future(self._receive())
        every_s = PING_INTERVAL_S if self._admits is None else ADMIT_EVERY_S
        try:
            while True:
                done, _ = await asyncio.wait({receiving}, timeout=every_s)
                if not done and (self._admits is None or await self._admits()):
                    if self._stream is not None:
                        await self._stream.ping()
                elif not done or receiving.result()["type"] == "http.disconnect":
                    self.gone = True
                    if self._watched is not None:
                        self._watched.cancel()
                    return
                else:
                    receiving = asyncio.ensure_future(self._receive())
        finally:
            receiving.cancel()

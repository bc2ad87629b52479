"""Responses that take the form that they need.

A response is plain JSON if the result is all there is to send. It becomes an event stream with the
first notification before the result, or where the client accepts nothing else.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Protocol

from .head import Head

__all__ = ["PING_INTERVAL_S", "Answer", "DisconnectWatch", "HttpAnswer", "send_response"]

PING_INTERVAL_S = 15.0
"""As the SDK does: a proxy closes streams that are silent for long."""
WATCH_AFTER_S = 0.02
"""Most requests end earlier, and need no task that waits for the client's disconnect."""
_JOINED_BYTES = 64 * 1024
"""A smaller body is one piece for the server."""

_EVENT_STREAM = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-transform"),
        (b"connection", b"keep-alive"),
        (b"x-accel-buffering", b"no"),
    ],
}
_JSON_TYPE = (b"content-type", b"application/json")


class Answer(Protocol):
    """Where the messages of one request go."""

    async def notify(self, message: bytes) -> None:
        """Send a JSON-RPC notification before the response."""

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        """Send the JSON-RPC response, in parts where it is large; empty for a notification, which
        has none."""


class Pinged(Protocol):
    """A response that is sent while a client waits."""

    async def ping(self) -> None:
        """Send a comment, so that no proxy ends the connection."""


class HttpAnswer:
    """The response to one HTTP request.

    Args:
        send: of the ASGI request.
    """

    __slots__ = ("_events", "_finished", "_json", "_lock", "_send", "_streaming")

    def __init__(self, head: Head, send: Any) -> None:
        self._json = head.accepts_json
        self._events = head.accepts_events
        self._send = send
        self._streaming = self._finished = False
        self._lock: asyncio.Lock | None = None

    async def notify(self, message: bytes) -> None:
        """See Answer; dropped where the client accepts no event stream."""
        if self._events:
            await self._stream(event(message), more=True)

    async def ping(self) -> None:
        """Send a comment, so that no proxy ends the connection."""
        # A client that reads slowly can still be taking the result.
        if self._events and not self._finished:
            await self._stream(b": ping\r\n\r\n", more=True)

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        """See Answer; a status other than 200 can be sent only where no stream has started."""
        self._finished = True
        if self._streaming or (any(parts) and status == 200 and not self._json):
            await self._stream(event(b"".join(parts)), more=False)
        else:
            await send_response(self._send, status, *parts)

    async def end(self) -> None:
        """End an event stream after the last response of a batch."""
        await self._stream(b"", more=False)

    async def _stream(self, data: bytes, *, more: bool) -> None:
        # A ping and a notification can be sent at the same time, by different tasks.
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._streaming:
                self._streaming = True
                await self._send(_EVENT_STREAM)
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


class DisconnectWatch:
    """Cancels the current task when the client disconnects; sends pings while it waits.

        with DisconnectWatch(receive, answer) as watch:
            ...                     # ends without an error if the client disconnects (watch.gone)

    Args:
        receive: of the ASGI request, after the whole body was read.
        answer: gets the pings; None where the response has no form yet.
    """

    __slots__ = ("_answer", "_receive", "_task", "_timer", "_watched", "gone")

    def __init__(self, receive: Any, answer: Pinged | None) -> None:
        self._receive = receive
        self._answer = answer
        self._task: asyncio.Task[None] | None = None
        self.gone = False

    def __enter__(self) -> DisconnectWatch:
        self._watched = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
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
        try:
            while True:
                done, _ = await asyncio.wait({receiving}, timeout=PING_INTERVAL_S)
                if not done:
                    if self._answer is not None:
                        await self._answer.ping()
                elif receiving.result()["type"] == "http.disconnect":
                    self.gone = True
                    if self._watched is not None:
                        self._watched.cancel()
                    return
                else:
                    receiving = asyncio.ensure_future(self._receive())
        finally:
            receiving.cancel()


def event(message: bytes) -> bytes:
    """One event of an event stream; a JSON-RPC message has no line breaks."""
    return b"event: message\r\ndata: " + message + b"\r\n\r\n"


async def send_response(
    send: Any,
    status: int,
    *parts: bytes,
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """Send a whole JSON response, or one without a body.

    Args:
        parts: of the body; the server writes those of a large one without joining them.
        headers: further ones.
    """
    size_bytes = sum(map(len, parts))
    length = (b"content-length", b"%d" % size_bytes)
    fields = [_JSON_TYPE, length, *headers] if headers else [_JSON_TYPE, length]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    if size_bytes > _JOINED_BYTES:
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        parts = ()
    await send({"type": "http.response.body", "body": b"".join(parts)})

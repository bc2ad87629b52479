"""JSON-RPC batches: servers must accept them in revision 2025-03-26; later revisions have none.

Each message of a batch is passed to the transport as a request of its own. The responses are sent
in one event stream, each as soon as it is ready, or in one JSON array to a client that accepts no
stream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import httpx2

from .messages import INVALID_REQUEST, MessageFault, read_envelope

__all__ = ["MAX_BATCH", "Batch", "BodyRefused", "parse_batch"]

MAX_BATCH = 50
_ACCEPTS_ALL = (b"accept", b"application/json, text/event-stream")

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class BodyRefused(ValueError):
    """The body is refused as a whole; the message is for the client."""

    def __init__(self, message: str, *, code: int = -32600, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def parse_batch(body: bytes, revision: str | None) -> list[dict[str, Any]]:
    """The messages of a batch.

    Args:
        revision: the MCP-Protocol-Version header; clients of 2025-03-26 send none.

    Raises:
        BodyRefused: not JSON, empty, too long, or of a revision without batches.
    """
    if revision is not None and revision > "2025-03-26":
        raise BodyRefused(f"Revision {revision} has no batches. Send one message per request.")
    try:
        messages = json.loads(body)
    except (ValueError, RecursionError):
        raise BodyRefused("The body is not valid JSON.", code=-32700) from None
    if not isinstance(messages, list) or not messages:
        raise BodyRefused("The batch is empty.")
    if not any(isinstance(message, dict) for message in messages):
        raise BodyRefused("The batch has no message. Each must be a JSON object.")
    if len(messages) > MAX_BATCH:
        raise BodyRefused(f"The batch has {len(messages)} messages; {MAX_BATCH} are allowed.")
    return messages


class Batch:
    """Passes the messages of one batch through the transport."""

    def __init__(self, transport: Asgi, messages: list[Any]) -> None:
        self._transport = transport
        self._messages = messages
        self._gone = asyncio.Event()

    async def answer(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Respond to the batch; a client that disconnects cancels what still runs."""
        parts = [_Part(message) for message in self._messages]
        watch = asyncio.create_task(self._watch(receive))
        runs = [asyncio.create_task(self._run(part, scope)) for part in parts]
        try:
            await asyncio.gather(*(part.started.wait() for part in parts))
            refusal = next((p for p in parts if p.status in (401, 403, 421)), None)
            if refusal is not None:  # of the request, not of one message
                await asyncio.gather(*runs)
                await _respond(send, refusal.status, refusal.content_type, bytes(refusal.body))
            elif all(part.status >= 400 for part in parts):
                await asyncio.gather(*runs)
                answers = [part.answer(always=True) for part in parts]
                await _respond(send, 400, b"application/json", json.dumps(answers).encode())
            elif all(part.is_notification for part in parts):
                await asyncio.gather(*runs)
                await _respond(send, 202, b"application/json", b"")
            elif b"text/event-stream" in dict(scope["headers"]).get(b"accept", b""):
                await self._stream(parts, runs, send)
            else:
                await asyncio.gather(*runs)
                answers = [m for part in parts if (m := part.answer()) is not None]
                await _respond(send, 200, b"application/json", json.dumps(answers).encode())
        finally:
            watch.cancel()
            self._gone.set()
            for run in runs:
                run.cancel()
            await asyncio.gather(watch, *runs, return_exceptions=True)

    async def _stream(self, parts: list[_Part], runs: list[asyncio.Task[None]], send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        lock = asyncio.Lock()

        async def forward(part: _Part) -> None:
            while (chunk := await part.chunks.get()) is not None:
                async with lock:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})

        await asyncio.gather(*(forward(part) for part in parts), *runs)
        await send({"type": "http.response.body", "body": b""})

    async def _run(self, part: _Part, scope: Mapping[str, Any]) -> None:
        refusal = part.refusal()
        if refusal is not None:
            await part.send({"type": "http.response.start", "status": 400, "headers": []})
            await part.send({"type": "http.response.body", "body": refusal})
            return
        body = part.body_sent
        replaced = (b"accept", b"content-length", b"transfer-encoding")
        headers = [pair for pair in scope["headers"] if pair[0] not in replaced]
        headers += [_ACCEPTS_ALL, (b"content-length", b"%d" % len(body))]
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        try:
            await self._transport({**scope, "headers": headers}, receive, part.send)
        finally:
            part.end()

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone.set()


class _Part:
    """One message and its response."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.body_sent = json.dumps(message).encode()
        self.started = asyncio.Event()
        self.status = 0
        self.content_type = b""
        self.body = bytearray()
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()

    @property
    def is_notification(self) -> bool:
        return isinstance(self.message, dict) and "id" not in self.message

    def refusal(self) -> bytes | None:
        """An error for a message that is not valid, or that a batch must not contain."""
        try:
            read_envelope(self.body_sent)
        except MessageFault as fault:
            return _error(fault.message_id, str(fault), fault.code)
        if self.message.get("method") == "initialize":
            # 2025-03-26, lifecycle: "The initialize request MUST NOT be part of a batch".
            return _error(self.message.get("id"), "initialize cannot be part of a batch.")
        return None

    async def send(self, event: Any) -> None:
        """The transport's `send`."""
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.content_type = dict(event["headers"]).get(b"content-type", b"application/json")
            self.started.set()
            return
        chunk = event.get("body", b"")
        self.body += chunk
        if self._streams:
            if chunk:
                self.chunks.put_nowait(chunk)
        elif not event.get("more_body"):
            answer = self.answer()
            if answer is not None:
                data = json.dumps(answer).encode()
                self.chunks.put_nowait(b"event: message\r\ndata: " + data + b"\r\n\r\n")
        if not event.get("more_body"):
            self.end()

    def end(self) -> None:
        """End the response."""
        self.started.set()
        self.chunks.put_nowait(None)

    @property
    def _id(self) -> Any:
        return self.message.get("id") if isinstance(self.message, dict) else None

    @property
    def _streams(self) -> bool:
        return self.content_type.startswith(b"text/event-stream")

    def answer(self, *, always: bool = False) -> Any | None:
        """The complete JSON-RPC response; None for a notification, unless `always`."""
        if self.is_notification and not always:
            return None
        if not self._streams:
            try:
                return json.loads(self.body)
            except ValueError:
                return json.loads(_error(self._id, "The message was refused."))
        for event in _events(bytes(self.body)):
            message = json.loads(event.data)
            if "id" in message and "method" not in message:
                return message
        return json.loads(_error(self._id, "The message got no response."))


def _events(body: bytes) -> Iterator[httpx2.ServerSentEvent]:
    """The events of a complete event stream, parsed as the SDK's client does."""
    return iter(
        httpx2.EventSource(
            httpx2.Response(
                200,
                headers={"content-type": "text/event-stream"},
                content=body,
                request=httpx2.Request("POST", "http://edge/mcp"),
            ),
            max_event_size=None,
        )
    )


def _error(message_id: Any, text: str, code: int = INVALID_REQUEST) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": text}}
    ).encode()


async def _respond(send: Any, status: int, content_type: bytes, body: bytes) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""JSON-RPC batches: servers must accept them in revision 2025-03-26; later revisions have none.

Each message of a batch is served like a request of its own. The responses are sent in one event
stream, each as soon as it is ready, or in one JSON array to a client that accepts no stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ..http.answer import Answer, HttpAnswer, PlainAnswer
from ..http.head import Received
from .messages import Invalid, Notification, Request, read_message

MAX_BATCH = 50
Message = Request | Notification | Invalid
ServeMessage = Callable[[Received, Message, Answer], Awaitable[None]]


class BatchError(ValueError):
    """The batch is refused as a whole; the message is for the client."""

    code = -32600


def check_batch(messages: list[Any], revision: str | None) -> None:
    """Check a batch as a whole.

    Args:
        revision: the MCP-Protocol-Version header; clients of 2025-03-26 send none.

    Raises:
        BatchError: empty, too long, or of a revision without batches.
    """
    if revision is not None and revision > "2025-03-26":
        raise BatchError(f"Revision {revision} has no batches. Send one message per request.")
    if not messages:
        raise BatchError("The batch is empty.")
    if not any(isinstance(message, dict) for message in messages):
        raise BatchError("The batch has no message. Each must be a JSON object.")
    if len(messages) > MAX_BATCH:
        raise BatchError(f"The batch has {len(messages)} messages; {MAX_BATCH} are allowed.")


class Batch:
    """The messages of one batch.

    Args:
        messages: decoded.
        serve: serves one message.
    """

    def __init__(self, messages: list[Any], received: Received, serve: ServeMessage) -> None:
        self._messages = [_checked(message) for message in messages]
        self._received = received
        self._serve = serve

    async def answer(self, send: Any, stream: HttpAnswer) -> None:
        """Serve all messages; cancelling this cancels what still runs.

        Args:
            send: of the ASGI request.
            stream: where an event stream is sent.
        """
        if all(isinstance(message, Invalid) for message in self._messages):
            await PlainAnswer(_array(await self._collect()), status=400).send(send)
        elif all(isinstance(message, Notification) for message in self._messages):
            await self._collect()
            await PlainAnswer(status=202).send(send)
        elif self._received.head.accepts_events:
            await self._run([_Streamed(stream) for _ in self._messages])
            await stream.end()
        else:
            await PlainAnswer(_array(await self._collect())).send(send)

    async def _collect(self) -> list[bytes]:
        parts = [_Kept() for _ in self._messages]
        await self._run(parts)
        return [part.response for part in parts if part.response]

    async def _run(self, answers: list[Any]) -> None:
        runs = [
            asyncio.create_task(self._one(message, answer))
            for message, answer in zip(self._messages, answers, strict=True)
        ]
        try:
            await asyncio.gather(*runs)
        finally:
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    async def _one(self, message: Message, answer: Answer) -> None:
        await self._serve(self._received, message, answer)


class _Streamed:
    """Passes what one message sends to the stream of its batch."""

    def __init__(self, stream: HttpAnswer) -> None:
        self._stream = stream

    async def notify(self, message: bytes) -> None:
        await self._stream.notify(message)

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        if any(parts):
            await self._stream.notify(b"".join(parts))


class _Kept:
    """Keeps the response of one message; a client without a stream gets no notifications."""

    def __init__(self) -> None:
        self.response = b""

    async def notify(self, message: bytes) -> None:
        pass

    async def finish(self, *parts: bytes, status: int = 200) -> None:
        self.response = b"".join(parts)


def _checked(value: Any) -> Message:
    """A message; an error for one that a batch must not contain."""
    message = read_message(value, modern=False)
    if isinstance(message, Request) and message.method == "initialize":
        # 2025-03-26, lifecycle: "The initialize request MUST NOT be part of a batch".
        return Invalid(-32600, "initialize cannot be part of a batch.", message.id)
    return message


def _array(messages: list[bytes]) -> bytes:
    return b"[" + b",".join(messages) + b"]"

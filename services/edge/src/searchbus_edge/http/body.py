"""The body of a request: how large it may be, how long its client may take to send it, its JSON.

Most requests come in one piece; the deadline and the count of held bytes apply to the others.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import msgspec
from mcp_types import PARSE_ERROR
from msgspec import Raw

from ..holding import HeldBytes, Holder
from .faults import HttpRefusedError
from .head import Head, Received, media_types

_JSON = "application/json"
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises for a body that a stranger wrote."""
_MAX_STRINGS = 20_000
"""Keys and texts of a body: each costs time in all that reads it, and may be an error."""
STRANGER_BYTES = 64 * 1024
"""The limit of a body that is read before anybody knows who sends it."""
_LENGTH = re.compile("[0-9]{1,19}")
_any = msgspec.json.Decoder(Raw)
_CUT_OFF = "The connection ended within the body. Send it again."


def check_media_types(head: Head) -> None:
    """The transport's rules for Content-Type and Accept; an encoded body is refused (RFC 9110).
    Raises HttpRefusedError."""
    if head.content_type != _JSON:  # most clients send it as it is
        media_type = head.content_type.lower()
        if not media_type.startswith(_JSON):
            raise HttpRefusedError(400, "Invalid Content-Type header. Send application/json.")
        if media_type.partition(";")[0].strip() != _JSON:
            message = "Unsupported Media Type: Content-Type must be application/json"
            raise HttpRefusedError(415, message)
    check_encoding(head)
    if not (head.accepts_json or head.accepts_events):
        message = "Not Acceptable: Client must accept application/json, text/event-stream, or both"
        raise HttpRefusedError(406, message)


def check_encoding(head: Head) -> None:
    """Refuse an encoded body, which would be read as plain text; raises HttpRefusedError."""
    if head.content_encoding and not media_types(head.content_encoding) <= {"identity"}:
        message = f"Content-Encoding {head.content_encoding[:40]!r}: send the body as it is."
        raise HttpRefusedError(415, message)


class BodyLimits:
    """The limits of one edge: `most_bytes` of any body, `call_bytes` where its tool declares no
    more, `held_bytes` of all incomplete ones together (a quarter of it of one caller, if it is
    enough for one body), `timeout_s` from head to end. What exceeds them raises HttpRefusedError.
    """

    def __init__(
        self,
        most_bytes: int,
        call_bytes: int,
        *,
        timeout_s: float = 30.0,
        held_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.most_bytes = most_bytes
        self._call_bytes = min(most_bytes, call_bytes)
        # A smaller body has neither too many bytes nor texts, whatever it asks for.
        self.small_bytes = min(self._call_bytes, 2 * _MAX_STRINGS)
        self._timeout_s = timeout_s
        self._held = HeldBytes(held_bytes, max(held_bytes // 4, most_bytes))

    async def read(
        self, received: Received, receive: Any, most_declared: Callable[[], int]
    ) -> bytes:
        """The body; a large one is held against `most_declared` bytes."""
        limit, length = self._call_bytes, _length(received.head)
        if length is None or length > limit:
            limit = self.of_tool(most_declared())
        return await self._read(received.caller, receive, length, limit)

    async def read_of_stranger(self, head: Head, receive: Any) -> bytes:
        """The small body of a stranger; all strangers together hold as much as one caller."""
        limit = min(self._call_bytes, STRANGER_BYTES)
        return await self._read("", receive, _length(head), limit)

    async def _read(self, caller: str, receive: Any, length: int | None, limit: int) -> bytes:
        _check_size(length or 0, limit)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpRefusedError(400, _CUT_OFF)
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            try:
                async with asyncio.timeout(self._timeout_s):
                    with Holder(self._held, caller) as holder:
                        return await _read_rest(body, receive, limit, holder)
            except TimeoutError:
                text = f"The body did not arrive within {self._timeout_s:g} seconds. Send it again."
                close = ((b"connection", b"close"),)
                raise HttpRefusedError(408, text, headers=close) from None
        _check_size(len(body), limit)
        return body

    def check(self, body: bytes, declared_bytes: int) -> None:
        """Refuse one that is too large; `declared_bytes`: allowed by its tool, 0 for the usual
        limit."""
        if len(body) <= self.small_bytes:
            return
        if len(body) > 2 * _MAX_STRINGS and _strings(body) > _MAX_STRINGS:
            try:
                _any.decode(body)
            except UNREADABLE:
                message = "The body is not JSON. Correct it."
                raise HttpRefusedError(400, message, PARSE_ERROR) from None
            raise HttpRefusedError(413, f"The body has over {_MAX_STRINGS} keys and texts.")
        _check_size(len(body), self.of_tool(declared_bytes))

    def of_tool(self, declared_bytes: int) -> int:
        """The limit of a tool that declares one; 0 for the usual one."""
        return min(self.most_bytes, max(self._call_bytes, declared_bytes))


async def _read_rest(body: bytes, receive: Any, limit: int, holder: Holder) -> bytes:
    parts, size = [body], len(body)
    while size <= limit:
        if not holder.take(len(parts[-1])):
            message = "Too many requests are being received. Send it again later."
            raise HttpRefusedError(503, message)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HttpRefusedError(400, _CUT_OFF)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if not message.get("more_body"):
            break
    _check_size(size, limit)
    return b"".join(parts)


def _length(head: Head) -> int | None:
    """The length that the head says; None where it says none."""
    # The server has read it; with more digits than a length has, int() could raise ValueError.
    return int(head.content_length) if _LENGTH.fullmatch(head.content_length) else None


def _strings(body: bytes) -> int:
    """The number of keys and texts: half of the quotes that are not escaped."""
    plain = body.replace(rb"\\", b"")  # a quote after an escaped backslash ends its text
    return (plain.count(b'"') - plain.count(rb"\"")) // 2


def _check_size(size_bytes: int, limit: int) -> None:
    if size_bytes > limit:
        raise HttpRefusedError(413, f"The body is over {limit} bytes.")

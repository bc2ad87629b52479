"""The answer to a call: its structured result, else its text, or an event stream.

| the client accepts | and receives |
| --- | --- |
| JSON, or anything | the structured result; of a tool without one the text, as `text/plain` |
| JSON and no text | the same, but a text as `{"content": [...]}` |
| `text/plain` and no JSON | the text that a model reads over MCP |
| `text/event-stream` and neither | events `progress` and `log`, then one `result` or `problem` |
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any

from msgspec import Struct

from searchbus_contracts import TextContent, ToolEvent, encode

from ...http.head import Refusal
from ...http.problems import ProblemError
from ...tools.call import Served, log_data
from ...tools.reply import Reply

__all__ = ["EventStream", "Form", "form_of", "send_result"]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
EVENTS = b"text/event-stream"
_MAX_KEPT_CHARS = 256
UNTRUSTED_HEADER = b"searchbus-untrusted"
"""Stands in responses with text that others wrote, as `_meta` says over MCP."""
# Text of others: a browser must neither guess its type nor run anything of it.
_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
)


class Form(Struct, frozen=True):
    """The forms of an answer that a client accepts."""

    json: bool
    text: bool
    events: bool


def form_of(accept: str) -> Form:
    """What an Accept header allows; parameters and weights are ignored.

    Raises:
        ProblemError: 406, where it allows none of the forms.
    """
    # Most clients send the same header; long ones would fill the memory.
    return (_known if len(accept) <= _MAX_KEPT_CHARS else _known.__wrapped__)(accept)


@lru_cache(maxsize=1024)
def _known(accept: str) -> Form:
    types = {part.partition(";")[0].strip().lower() for part in accept.split(",")} - {""}
    anything = not types or "*/*" in types

    def takes(media_type: str, group: str) -> bool:
        return anything or media_type in types or group in types

    form = Form(
        takes("application/json", "application/*"), takes("text/plain", "text/*"),
        takes("text/event-stream", "text/*"),
    )  # fmt: skip
    if not (form.json or form.text or form.events):
        message = "Accept application/json, text/plain or text/event-stream."
        raise ProblemError.of_refusal(Refusal(406, message))
    return form


async def send_result(send: Any, served: Served, form: Form) -> None:
    """Answer with the result of a call.

    Args:
        send: of the ASGI request.
    """
    content_type, body = _body(served.reply, form)
    headers = _headers(content_type, untrusted=served.listed.descriptor.untrusted)
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _body(reply: Reply, form: Form) -> tuple[bytes, bytes]:
    """Media type and body."""
    if reply.structured is not None and form.json:
        return JSON, reply.structured
    if reply.text is not None:
        return TEXT, reply.text
    if form.text and all(isinstance(block, TextContent) for block in reply.content):
        texts = [block.text for block in reply.content if isinstance(block, TextContent)]
        return TEXT, "\n\n".join(texts).encode()
    return JSON, _json(reply)


def _json(reply: Reply) -> bytes:
    """The structured result; where there is none, the blocks of content as over MCP."""
    return reply.structured if reply.structured is not None else encode({"content": reply.content})


def _headers(content_type: bytes, *, untrusted: bool) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", content_type), *_SAFE]
    if untrusted:
        headers.append((UNTRUSTED_HEADER, b"true"))
    return headers


class EventStream:
    """The events of one call; the response starts with the first of them.

    Args:
        send: of the ASGI request.
        untrusted: whether the tool's results have text that others wrote.
    """

    def __init__(self, send: Any, *, untrusted: bool) -> None:
        self._send = send
        self._untrusted = untrusted
        self._lock = asyncio.Lock()  # a ping and an event may be sent at the same time
        self.started = False

    async def forward(self, event: ToolEvent) -> None:
        """Send progress or a log line of the tool."""
        data: dict[str, Any]
        if event.kind == "progress":
            data = {"progress": event.progress, "total": event.total, "message": event.message}
        else:
            data = {"level": event.level, "logger": event.logger, "data": log_data(event)}
        known = {name: value for name, value in data.items() if value is not None}
        await self._write(_event(event.kind, encode(known)), more=True)

    async def ping(self) -> None:
        """Send a comment, so that no proxy ends the connection."""
        await self._write(b": ping\n\n", more=True)

    async def finish(self, served: Served) -> None:
        """Send the result, and end the stream."""
        await self._write(_event("result", _json(served.reply)), more=False)

    async def fail(self, error: ProblemError) -> None:
        """Send a problem, and end the stream."""
        await self._write(_event("problem", encode(error.problem)), more=False)

    async def _write(self, data: bytes, *, more: bool) -> None:
        async with self._lock:
            if not self.started:
                headers = _headers(EVENTS, untrusted=self._untrusted)
                headers += [(b"cache-control", b"no-cache, no-transform"),
                            (b"x-accel-buffering", b"no")]  # fmt: skip
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
                # Not before: a task that is cancelled meanwhile has sent nothing.
                self.started = True
            await self._send({"type": "http.response.body", "body": data, "more_body": more})


def _event(name: str, json: bytes) -> bytes:
    """One event; JSON of the bus has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json)

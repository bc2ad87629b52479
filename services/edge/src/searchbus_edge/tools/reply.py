"""The reply of a tool at the edge: its structured content stays the JSON that the worker wrote.

A document of megabytes is decoded only where somebody must look inside, and encoded nowhere: its
bytes are copied into the response, once as they are, and once escaped as the text of the result.
"""

from __future__ import annotations

import codecs
import logging
from typing import Any

import mcp_types as types
import msgspec
from msgspec import Raw, Struct

from searchbus_contracts import (
    Content,
    ErrorCode,
    Failure,
    Fault,
    TextContent,
    ToolReply,
    decode,
    encode,
)
from searchbus_contracts.errors import Credits
from searchbus_contracts.tools import UNTRUSTED, InputRequired

from ..catalog.render import content_block
from ..catalog.view import ListedTool

log = logging.getLogger("searchbus.edge")
_NOTHING = (b"", b"null")
_PIECE_BYTES = 64 * 1024
_parts = msgspec.json.Decoder(dict[str, Raw])
_letters = codecs.getincrementaldecoder("utf-8")


class RawReply(Struct, frozen=True, kw_only=True):
    """A ToolReply as it is read from the bus; its structured content is checked, not decoded."""

    content: tuple[Content, ...] = ()
    structured: Raw = Raw(b"")
    is_error: bool = False
    input_required: InputRequired | None = None
    meta: dict[str, Any] | None = None
    credits: Credits = 0.0

    def __post_init__(self) -> None:
        if not len(self.structured):
            return
        given = memoryview(self.structured)
        if given[0] not in b"{n":
            raise ValueError("structured must be an object or null")
        # The decoder has checked its form, but not its letters. In pieces, since a text of
        # megabytes would take longer to allocate than to check.
        check = _letters()
        for start in range(0, len(given), _PIECE_BYTES):
            check.decode(given[start : start + _PIECE_BYTES])
        check.decode(b"", final=True)


class Reply(Struct, frozen=True, kw_only=True):
    """A reply as the edge renders it: `structured` is JSON of an object, if any; `text` is JSON
    that is shown as the only text; where it is None, `content` is shown."""

    content: tuple[Content, ...] = ()
    structured: bytes | None = None
    text: bytes | None = None
    is_error: bool = False
    input_required: InputRequired | None = None
    meta: dict[str, Any] | None = None
    credits: float = 0.0

    @classmethod
    def of(cls, reply: ToolReply | RawReply) -> Reply:
        """A reply that was made here, or read from the bus."""
        if isinstance(reply, RawReply):
            structured = _compact(bytes(reply.structured)) if len(reply.structured) else b""
        else:
            structured = encode(reply.structured)
        return cls(
            content=reply.content,
            structured=None if structured in _NOTHING else structured,
            is_error=reply.is_error,
            input_required=reply.input_required,
            meta=reply.meta,
            credits=reply.credits,
        )

    @property
    def value(self) -> Any:
        """The structured content, decoded; None where there is none. Raises Fault(internal)."""
        return _read(self.structured, dict[str, Any]) if self.structured is not None else None

    @property
    def texts(self) -> list[str]:
        """The blocks of its content that are texts."""
        return [block.text for block in self.content if isinstance(block, TextContent)]

    def fault(self, otherwise: str, code: str = ErrorCode.UPSTREAM_FAILED) -> Fault:
        """The failure that an error reply describes; else this message and `code`."""
        try:
            return Fault.of(msgspec.convert((self.value or {}).get("error"), Failure))
        except msgspec.ValidationError:
            return Fault(code, otherwise)

    def sent(self) -> RawReply:
        """The same as a message of the bus."""
        return RawReply(
            content=self.content,
            structured=Raw(b"null" if self.structured is None else self.structured),
            is_error=self.is_error,
            input_required=self.input_required,
            meta=self.meta,
            credits=self.credits,
        )

    def decoded(self) -> ToolReply:
        """The same as a ToolReply, for those who need its values."""
        content = self.content
        if self.text is not None:
            content = (TextContent(text=self.text.decode()),)
        return ToolReply(
            content=content,
            structured=self.value,
            is_error=self.is_error,
            input_required=self.input_required,
            meta=self.meta,
        )


def shown(listed: ListedTool, reply: Reply) -> Reply:
    """The reply with its text, and with the mark of a tool whose results others wrote.

    With the renderers "json" and "results" the text is the structured content or a part of it, byte
    by byte, so that the two cannot differ.
    """
    descriptor = listed.descriptor
    meta, text = reply.meta, reply.structured
    if descriptor.untrusted:
        meta = {**(meta or {}), UNTRUSTED: True}
    if reply.content or descriptor.renderer == "content":
        text = None
    elif text is not None and descriptor.renderer == "results":
        text = bytes(_parts.decode(text).get("results", b"null"))
    if meta is reply.meta and text is None:
        return reply
    return msgspec.structs.replace(reply, meta=meta, text=text)


def tool_result(reply: ToolReply) -> types.CallToolResult:
    """A reply as the result of tools/call."""
    return types.CallToolResult(
        content=[content_block(block) for block in reply.content],
        structured_content=reply.structured,
        is_error=reply.is_error,
        _meta=reply.meta,
    )


def _compact(json: bytes) -> bytes:
    """JSON on one line, as an event stream needs it; our own workers send no other."""
    if b"\n" in json or b"\r" in json or b"\t" in json:
        return encode(_read(json, Any))
    return json


def _read(json: bytes, kind: Any) -> Any:
    """What a worker wrote. Raises Fault(internal) where it has a number that is out of range: no
    caller can correct it."""
    try:
        return decode(json, kind)
    except Fault as fault:
        log.warning("the result of a tool cannot be read: %s", fault)
        raise Fault(
            ErrorCode.INTERNAL,
            "The tool's answer could not be understood. Report it to the operator.",
        ) from None

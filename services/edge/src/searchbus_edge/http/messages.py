"""Checks the JSON-RPC envelope of a message before the SDK parses it.

The SDK takes a request whose id is null or 1.5 for a notification and never answers it, and reports
other faults with the dump of a validation library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["Envelope", "MessageFault", "read_envelope"]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602


class MessageFault(ValueError):
    """A message that is not valid JSON-RPC 2.0; the text is for the client.

    Args:
        message_id: of the error response; None where it is missing or not valid.
    """

    def __init__(self, code: int, text: str, message_id: str | int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.message_id = message_id


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the edge must know of a message before it is passed on.

    Args:
        message_id: None for notifications and responses.
        tool: the name in a tools/call, else empty.
    """

    message_id: str | int | None
    tool: str


class _Message(msgspec.Struct):
    jsonrpc: Any = None
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _ToolParams(msgspec.Struct):
    name: Any = None


def read_envelope(body: bytes) -> Envelope:
    """Check one message, not a batch.

    Raises:
        MessageFault: -32700, -32600 or -32602, with the field and what it must be.
    """
    try:
        message = msgspec.json.decode(body, type=_Message)
    except msgspec.ValidationError:
        raise MessageFault(
            INVALID_REQUEST, "The body is not a JSON-RPC message. Send one JSON object."
        ) from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise MessageFault(PARSE_ERROR, "The body is not valid JSON.") from None
    message_id = message.id
    if message_id is msgspec.UNSET:
        message_id = None
    elif isinstance(message_id, bool) or not isinstance(message_id, str | int):
        raise MessageFault(INVALID_REQUEST, "id must be a string or a whole number, and not null.")
    if message.jsonrpc != "2.0":
        raise MessageFault(INVALID_REQUEST, 'jsonrpc must be "2.0".', message_id)
    if message.method is msgspec.UNSET:
        return Envelope(None, "")  # a response, which the SDK checks
    if not isinstance(message.method, str):
        raise MessageFault(INVALID_REQUEST, "method must be a string.", message_id)
    params = b"{}" if isinstance(message.params, msgspec.UnsetType) else bytes(message.params)
    if not params.startswith((b"{", b"null")):
        raise MessageFault(
            INVALID_PARAMS, "params must be an object of named parameters.", message_id
        )
    tool = _tool_name(params) if message.method == "tools/call" else ""
    return Envelope(message_id, tool)


def _tool_name(params: bytes) -> str:
    try:
        name = msgspec.json.decode(params, type=_ToolParams).name
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""

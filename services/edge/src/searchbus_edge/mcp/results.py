"""Renders the reply of a tool as JSON without the SDK's types: the fast form of `calls.render`.

It has what the SDK's serialization has for the same reply, which a test compares. What it does not
cover, the kernel renders.
"""

from __future__ import annotations

from typing import Any

from mcp_types import SERVER_INFO_META_KEY

from searchbus_contracts import Content, encode
from searchbus_contracts.tools import EmbeddedResource

from ..tools.reply import Reply
from .messages import RequestId

__all__ = ["encode_reply", "is_plain"]

_RESERVED = "io.modelcontextprotocol/"


def is_plain(reply: Reply) -> bool:
    """Whether `encode_reply` covers a reply."""
    if reply.input_required is not None:
        return False
    if reply.meta is not None and not all(
        "/" in key and not key.startswith(_RESERVED) for key in reply.meta
    ):
        return False
    return all(map(_is_plain, reply.content))


def _is_plain(block: Content) -> bool:
    if block.annotations is not None or block.meta is not None:
        return False
    if isinstance(block, EmbeddedResource):
        body = block.resource
        return (body.text is None) != (body.blob is None) and body.meta is None
    return True


def encode_reply(
    request_id: RequestId, reply: Reply, server_info: dict[str, Any] | None
) -> list[bytes]:
    """The JSON-RPC response, in parts.

    Args:
        server_info: stands in `_meta` of results of revision 2026-07-28; None before.
    """
    parts = [b'{"jsonrpc":"2.0","id":%b,"result":{"content":' % encode(request_id)]
    if reply.text is None:
        parts.append(encode(reply.content))
    else:
        parts += (b'[{"type":"text","text":"', _escaped(reply.text), b'"}]')
    if reply.structured is not None:
        parts += (b',"structuredContent":', reply.structured)
    rest: dict[str, Any] = {"isError": reply.is_error}
    meta = reply.meta
    if server_info is not None:
        rest["resultType"] = "complete"
        given = {key: value for key, value in (meta or {}).items() if value is not None}
        meta = {**given, SERVER_INFO_META_KEY: server_info}
    if meta is not None:
        rest["_meta"] = meta
    parts.append(b",%b}" % encode(rest)[1:])
    return parts


def _escaped(json: bytes) -> bytes:
    """Compact JSON as the inside of a JSON text: it has no other letters that must be escaped."""
    return json.replace(b"\\", rb"\\").replace(b'"', rb"\"")

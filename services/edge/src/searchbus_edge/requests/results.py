"""Renders the reply of a tool as JSON without the SDK's types: the fast form of `calls.render`.

It has what the SDK's serialization has for the same reply, which a test compares. What it does not
cover, the kernel renders.
"""

from __future__ import annotations

from typing import Any

from mcp_types import SERVER_INFO_META_KEY

from searchbus_contracts import Content, TextContent, ToolReply
from searchbus_contracts.tools import EmbeddedResource

from .messages import RequestId, encode_result

__all__ = ["encode_reply", "is_plain"]

_RESERVED = "io.modelcontextprotocol/"


def is_plain(reply: ToolReply) -> bool:
    """Whether `encode_reply` covers a reply."""
    if reply.input_required is not None:
        return False
    if reply.meta is not None and not all(
        "/" in key and not key.startswith(_RESERVED) for key in reply.meta
    ):
        return False
    return all(_is_plain(block) for block in reply.content)


def _is_plain(block: Content) -> bool:
    if isinstance(block, TextContent):
        return block.annotations is None
    if isinstance(block, EmbeddedResource):
        return (block.resource.text is None) != (block.resource.blob is None)
    return True


def encode_reply(
    request_id: RequestId, reply: ToolReply, server_info: dict[str, Any] | None
) -> bytes:
    """The JSON-RPC response.

    Args:
        server_info: stands in `_meta` of results of revision 2026-07-28; None before.
    """
    result: dict[str, Any] = {"content": reply.content, "isError": reply.is_error}
    if reply.structured is not None:
        result["structuredContent"] = reply.structured
    meta = reply.meta
    if server_info is not None:
        result["resultType"] = "complete"
        given = {key: value for key, value in (meta or {}).items() if value is not None}
        meta = {**given, SERVER_INFO_META_KEY: server_info}
    if meta is not None:
        result["_meta"] = meta
    return encode_result(request_id, result)

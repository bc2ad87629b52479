"""A server's answer to tools/call as a reply of the bus, and its errors as failures."""

from __future__ import annotations

from typing import Any

import msgspec
from mcp import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, PARSE_ERROR
from msgspec import Struct

from searchbus_contracts import Content, ErrorCode, Fault, ToolReply

from .content_replies import parsed, passed_on
from .text import clean

__all__ = ["MAX_ERROR_CHARS", "failure_of", "reply_of"]

MAX_ERROR_CHARS = 1_000
_RESOURCE_NOT_FOUND = -32002


class _CallResult(Struct, rename="camel"):
    """The result of tools/call, of every revision."""

    content: tuple[Content, ...] = ()
    structured_content: Any = None
    is_error: bool = False
    result_type: str = "complete"
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


def reply_of(server: str, raw: Any, *, links: bool = False) -> ToolReply:
    """The reply; content is passed on.

    Args:
        links: as for `passed_on`.

    Raises:
        Fault: upstream_failed where the answer is not one of MCP, or asks for input.
    """
    found = parsed(server, raw, _CallResult)
    if found.result_type == "input_required":
        raise Fault(
            ErrorCode.UPSTREAM_FAILED,
            f"{server} asks for input of the client, which is not passed on. Use another tool.",
            retryable=False,
        )
    structured = found.structured_content
    if structured is not None and not isinstance(structured, dict):
        structured = {"result": structured}
    return ToolReply(
        content=tuple(passed_on(server, block, links=links) for block in found.content),
        structured=structured,
        is_error=found.is_error,
        meta=found.meta,
    )


def failure_of(server: str, error: MCPError) -> Fault:
    """The failure for an error of JSON-RPC; the text is the server's."""
    if error.code == PARSE_ERROR and "validation error" in error.message:
        # The SDK's, with the names of its types and a piece of the answer.
        return Fault(
            ErrorCode.UPSTREAM_FAILED,
            f"{server} sent an answer that is not one of MCP. Use another tool.",
            retryable=False,
        )
    text = clean(error.message, MAX_ERROR_CHARS) or "no message"
    if error.code == INVALID_PARAMS:
        return Fault(ErrorCode.INVALID_ARGUMENT, f"{server} refused the call: {text}")
    if error.code in (METHOD_NOT_FOUND, _RESOURCE_NOT_FOUND):
        return Fault(ErrorCode.NOT_FOUND, f"{server} does not have it: {text}")
    return Fault(ErrorCode.UPSTREAM_FAILED, f"{server} failed: {text}")

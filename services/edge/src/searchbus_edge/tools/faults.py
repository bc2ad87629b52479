"""Typed failures as MCP clients receive them.

| failure | becomes |
| --- | --- |
| unknown tool, malformed parameters of a method | JSON-RPC -32602 |
| internal | JSON-RPC -32603, fixed text with the trace id |
| every other code of a call | a result with isError: the code in text and structuredContent.error |
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError
from opentelemetry import trace

from searchbus_contracts import ErrorCode, Fault, TextContent, ToolReply

from ..http.faults import shown

log = logging.getLogger("searchbus.edge")
P = TypeVar("P")
R = TypeVar("R")


def failed_reply(fault: Fault) -> ToolReply:
    """A failed tool call: `<code>: <message>` as text, the failure as structured content."""
    failure = fault.failure
    return ToolReply(
        content=(TextContent(text=f"{failure.code}: {failure.message}"),),
        structured={
            "error": {
                "code": failure.code,
                "message": failure.message,
                "retryable": failure.retryable,
                "retry_after_ms": failure.retry_after_ms,
            }
        },
        is_error=True,
    )


def invalid_params(message: str) -> MCPError:
    """JSON-RPC -32602."""
    return MCPError(types.INVALID_PARAMS, message)


def internal_error() -> MCPError:
    """JSON-RPC -32603 with a fixed text and the trace id, so that nothing internal leaks."""
    trace_id = trace.get_current_span().get_span_context().trace_id
    return MCPError(
        types.INTERNAL_ERROR, f"An internal error occurred. Report it with trace {trace_id:032x}."
    )


def raise_for(fault: Fault) -> MCPError:
    """A failure of methods without error results (resources, prompts, search): a JSON-RPC error."""
    if fault.code == ErrorCode.INTERNAL:
        return MCPError(types.INTERNAL_ERROR, fault.failure.message)
    failure = fault.failure
    data = {
        "code": failure.code,
        "retryable": failure.retryable,
        "retry_after_ms": failure.retry_after_ms,
    }
    return MCPError(shown(failure.code).json_rpc, f"{failure.code}: {failure.message}", data)


def shown_error(error: Exception, method: str) -> MCPError:
    """What the client receives for any exception of a method: a text that is not meant for it is
    logged, and replaced by a fixed one."""
    if isinstance(error, MCPError):
        return error
    if isinstance(error, Fault):
        return raise_for(error)
    log.error("%s failed", method, exc_info=error)
    return internal_error()


def guarded(
    handler: Callable[[Any, P], Awaitable[R]],
) -> Callable[[Any, P], Awaitable[R]]:
    """A handler that raises MCP errors only: the SDK would show the text of any other."""

    @functools.wraps(handler)
    async def guard(ctx: Any, params: P) -> R:
        try:
            return await handler(ctx, params)
        except Exception as error:
            raise shown_error(error, ctx.method) from None

    return guard

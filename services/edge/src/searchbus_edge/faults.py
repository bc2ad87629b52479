"""Typed failures as an MCP client sees them.

| failure | becomes |
| --- | --- |
| arguments outside the schema, unknown tool | JSON-RPC -32602 |
| internal | JSON-RPC -32603, fixed text with the trace id |
| every other code | a result with isError, the code in its text and in structuredContent.error |
"""

from __future__ import annotations

import mcp_types as types
from mcp.shared.exceptions import MCPError
from opentelemetry import trace

from searchbus_contracts import ErrorCode, Fault

__all__ = ["error_result", "internal_error", "invalid_params", "raise_for"]


def error_result(fault: Fault) -> types.CallToolResult:
    """A failed tool call: `<code>: <message>` as text, the failure as structured content."""
    failure = fault.failure
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=f"{failure.code}: {failure.message}")],
        structured_content={
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
    """JSON-RPC -32603 that says nothing but where to look."""
    trace_id = trace.get_current_span().get_span_context().trace_id
    return MCPError(
        types.INTERNAL_ERROR, f"An internal error occurred. Report it with trace {trace_id:032x}."
    )


def raise_for(fault: Fault) -> MCPError:
    """A failure where MCP has no error results (resources, prompts): a JSON-RPC error."""
    if fault.code == ErrorCode.INTERNAL:
        return MCPError(types.INTERNAL_ERROR, fault.failure.message)
    data = {"code": fault.code, "retryable": fault.failure.retryable}
    if fault.code in (ErrorCode.INVALID_ARGUMENT, ErrorCode.INVALID_QUERY, ErrorCode.NOT_FOUND):
        return MCPError(types.INVALID_PARAMS, f"{fault.code}: {fault.failure.message}", data)
    # Own codes lie outside of -32768..-32000, which JSON-RPC reserves.
    return MCPError(-31503, f"{fault.code}: {fault.failure.message}", data)

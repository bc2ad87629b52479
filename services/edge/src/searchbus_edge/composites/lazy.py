"""find_tools and call_tool as tools on the bus, where the tool index finds them.

Clients of this edge do not call them there: `requests.tool_calls` serves them in the process.
"""

from __future__ import annotations

from functools import partial

import msgspec
from mcp.shared.exceptions import MCPError

from searchbus_bus import Call, Worker
from searchbus_contracts import ErrorCode, Fault, ToolCall, ToolReply

from ..search.lazy import LAZY, LAZY_TOOLS
from ..tools.call import ToolCalls, ToolRequest

__all__ = ["add_lazy_tools"]


def add_lazy_tools(worker: Worker, calls: ToolCalls) -> None:
    """Offer both tools."""
    for descriptor in LAZY_TOOLS:
        worker.add_tool(descriptor, partial(_serve, calls, descriptor.name))


async def _serve(calls: ToolCalls, name: str, call: Call, request: ToolCall) -> ToolReply:
    everything = calls.everything
    listed = everything.tool_of.get((LAZY, name))
    if listed is None:
        raise Fault(
            ErrorCode.UNAVAILABLE,
            "Tools cannot be found now: no tool index is running. Try again later.",
        )
    arguments = msgspec.json.decode(request.arguments)
    made = ToolRequest(
        call.actor, everything, listed.name, arguments, capabilities=request.client_capabilities,
        input_responses=request.input_responses, state=request.state, timeout_s=call.remaining_s,
        for_composite=True,
    )  # fmt: skip
    try:
        return (await calls.call(made)).reply.decoded()
    except MCPError as error:
        raise Fault(ErrorCode.INVALID_ARGUMENT, error.error.message) from None

"""Tools that need input from the client: elicitation, sampling, roots (SEP-2322).

In revision 2026-07-28 such a call returns what is needed, and the client calls again with it; the
edge keeps no state. Older revisions would need a session, which a stateless edge does not have.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from searchbus_contracts import ErrorCode, Fault, InputRequired, ToolDescriptor

from .faults import failed_reply
from .reply import tool_result

MISSING_CAPABILITY = -32021
FIRST_REVISION = "2026-07-28"
_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def client_capabilities(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...]:
    """Names of the capabilities that the client declared, sorted."""
    return capability_names(ctx.session.client_capabilities)


def capability_names(declared: types.ClientCapabilities | None) -> tuple[str, ...]:
    """Names of declared capabilities, sorted."""
    if declared is None:
        return ()
    return tuple(sorted(declared.model_dump(by_alias=True, exclude_none=True)))


def require_capabilities(descriptor: ToolDescriptor, capabilities: tuple[str, ...]) -> None:
    """Raise -32021 naming the capabilities that the tool needs and the client did not declare."""
    missing = [name for name in descriptor.client_capabilities if name not in capabilities]
    if missing:
        raise MCPError(
            MISSING_CAPABILITY,
            f"The tool needs a client with {', '.join(missing)}.",
            {"requiredCapabilities": {name: {} for name in missing}},
        )


def dump_responses(params: types.CallToolRequestParams) -> dict[str, Any] | None:
    """The client's answers as JSON values."""
    if params.input_responses is None:
        return None
    dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    responses: dict[str, Any] = dumped["inputResponses"]
    return responses


def request_input(
    ctx: ServerRequestContext[Any, Any], required: InputRequired
) -> types.InputRequiredResult | types.CallToolResult:
    """A request for input; an error result where the client cannot give it."""
    able = client_capabilities(ctx)
    needs = {_NEEDS.get(str(r.get("method")), "?") for r in required.requests.values()}
    if ctx.protocol_version < FIRST_REVISION or not needs <= set(able):
        lacking = ", ".join(sorted(needs - set(able))) or f"revision {FIRST_REVISION}"
        message = f"The tool needs input from the client, which lacks: {lacking}."
        return tool_result(failed_reply(Fault(ErrorCode.INVALID_ARGUMENT, message)))
    return types.InputRequiredResult.model_validate(
        {"inputRequests": required.requests or None, "requestState": required.state}
    )

"""Tools that need something of the client first: elicitation, sampling, roots (SEP-2322).

Revision 2026-07-28 answers such a call with what is needed, and the client calls again with it; no
state is kept here. Older revisions would need a back-channel that a stateless edge has not.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from searchbus_contracts import ErrorCode, Fault, InputRequired, ToolDescriptor

from .faults import error_result

__all__ = ["ask_client", "client_capabilities", "dump_responses", "require_capabilities"]

MISSING_CAPABILITY = -32021
FIRST_REVISION = "2026-07-28"
_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def client_capabilities(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...]:
    """Names of the capabilities that the client declared, sorted."""
    declared = ctx.session.client_capabilities
    if declared is None:
        return ()
    return tuple(sorted(declared.model_dump(by_alias=True, exclude_none=True)))


def require_capabilities(descriptor: ToolDescriptor, capabilities: tuple[str, ...]) -> None:
    """Raise -32021 naming what the tool needs and the client did not declare."""
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


def ask_client(
    ctx: ServerRequestContext[Any, Any], required: InputRequired
) -> types.InputRequiredResult | types.CallToolResult:
    """What the client shall do before it calls again; a failure where it cannot be asked."""
    able = client_capabilities(ctx)
    needs = {_NEEDS.get(str(r.get("method")), "?") for r in required.requests.values()}
    if ctx.protocol_version < FIRST_REVISION or not needs <= set(able):
        lacking = ", ".join(sorted(needs - set(able))) or f"revision {FIRST_REVISION}"
        return error_result(
            Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"The tool has to ask the client, which lacks: {lacking}.",
            )
        )
    return types.InputRequiredResult.model_validate(
        {"inputRequests": required.requests or None, "requestState": required.state}
    )

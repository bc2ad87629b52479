"""The client's side of a request: what it declares and gives, and the events it receives."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext

from searchbus_contracts import ErrorCode, Fault, InputRequired, ToolEvent

from ..tasks.store import EXTENSION as TASKS
from ..tools.call import SendEvent, log_data
from ..tools.faults import failed_reply
from ..tools.reply import tool_result

Context = ServerRequestContext[Any, Any]
FIRST_REVISION = "2026-07-28"
"""Where a result may ask for input, and may be that of an extension."""
VIEWS = "io.modelcontextprotocol/ui"
EXTENSIONS = frozenset({TASKS, VIEWS})
"""Extensions of clients that change what they are sent."""
_NEEDS = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def sending(ctx: Context) -> SendEvent:
    """Sends an event by the SDK's session of a request."""

    async def send(event: ToolEvent) -> None:
        if event.kind == "progress":
            await ctx.session.report_progress(event.progress, event.total, event.message)
        else:
            # Deprecated in 2026-07-28, where it is sent only to a request that asked for it.
            await ctx.session.send_log_message(
                event.level, log_data(event), event.logger, related_request_id=ctx.request_id
            )

    return send


def client_capabilities(ctx: Context) -> tuple[str, ...]:
    """Names of the capabilities that the client declared, sorted."""
    return capability_names(ctx.session.client_capabilities)


def capability_names(declared: types.ClientCapabilities | None) -> tuple[str, ...]:
    """Names of declared capabilities, and the extensions among them that we know, sorted."""
    if declared is None:
        return ()
    extensions = EXTENSIONS.intersection(declared.extensions or ())
    return tuple(sorted({*declared.model_dump(by_alias=True, exclude_none=True), *extensions}))


def dump_responses(params: types.CallToolRequestParams) -> dict[str, Any] | None:
    """The client's answers as JSON values."""
    if params.input_responses is None:
        return None
    dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    responses: dict[str, Any] = dumped["inputResponses"]
    return responses


def lacking(required: InputRequired, capabilities: tuple[str, ...]) -> list[str]:
    """Names of the capabilities that a client needs for a tool's requests and does not have."""
    needs = {_NEEDS.get(str(r.get("method")), "?") for r in required.requests.values()}
    return sorted(needs.difference(capabilities))


def request_input(
    ctx: Context, required: InputRequired
) -> types.InputRequiredResult | types.CallToolResult:
    """A request for input; an error result where the client cannot give it."""
    missing = lacking(required, client_capabilities(ctx))
    if ctx.protocol_version < FIRST_REVISION or missing:
        names = ", ".join(missing) or f"revision {FIRST_REVISION}"
        message = f"The tool needs input from the client, which lacks: {names}."
        return tool_result(failed_reply(Fault(ErrorCode.INVALID_ARGUMENT, message)))
    return types.InputRequiredResult.model_validate(
        {"inputRequests": required.requests or None, "requestState": required.state}
    )

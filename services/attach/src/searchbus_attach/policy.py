"""What a view asks for around each call: filters, approval by a person, shaped results."""

from __future__ import annotations

import asyncio
from typing import Any

from searchbus_bus import Bus, Call
from searchbus_contracts import ErrorCode, Fault, ToolCall, ToolReply

from .consent import Consent
from .declare.filters import check_arguments, filtered
from .declare.views import Shape
from .definitions.shaping import Shaped, shaped
from .definitions.viewing import ViewedDefinition
from .metrics import count
from .rests import Rests


class CallPolicy:
    """Applies views to calls; `rests` keeps what does not fit a budget, `consent` asks persons."""

    def __init__(self, rests: Rests, consent: Consent) -> None:
        self.rests = rests
        self.consent = consent

    @classmethod
    async def over(cls, bus: Bus) -> CallPolicy:
        """With the buckets that all workers of this bus share."""
        return cls(await Rests.over(bus), await Consent.over(bus))

    async def before(
        self,
        call: Call,
        request: ToolCall,
        server: str,
        shown: ViewedDefinition,
        arguments: dict[str, Any],
    ) -> ToolReply | None:
        """None where the call may be made; else the question for the client. Raises
        Fault(invalid_argument) for arguments that must not leave, forbidden without approval."""
        names = shown.shape.argument_filters
        if names:
            try:
                await asyncio.to_thread(check_arguments, request.tool, arguments, names)
            except Fault:
                count("filtered", server=server, side="arguments")
                raise
        if not shown.approve:
            return None
        return await self.consent.ask(call, request, server, arguments)

    async def after(
        self, call: Call, server: str, shown: ViewedDefinition, reply: ToolReply
    ) -> ToolReply:
        """The reply as the view shows it."""
        if shown.shape == Shape():
            return reply
        try:
            found = await asyncio.to_thread(_shaped, shown.shape, reply)
        except RecursionError:
            raise Fault(
                ErrorCode.UPSTREAM_FAILED,
                f"{server} sent an answer that is nested too deeply. Use another tool.",
                retryable=False,
            ) from None
        if found.reply.meta != reply.meta:
            count("filtered", server=server, side="results")
        if not found.rest:
            return found.reply
        return await self.rests.add(
            found.reply, found.rest, actor=call.actor, server=server,
            roles=shown.descriptor.required_roles, max_tokens=shown.shape.max_tokens or 0,
        )  # fmt: skip


def _shaped(shape: Shape, reply: ToolReply) -> Shaped:
    # First what is kept: filters need not look through the rest. All of it is filtered before it
    # is cut, so that nothing is found by reading the rest in pieces.
    kept = shaped(reply, Shape(fields=shape.fields, max_rows=shape.max_rows)).reply
    if shape.result_filters:
        kept = filtered(kept, shape.result_filters)
    return shaped(kept, Shape(max_tokens=shape.max_tokens))

"""Calls a tool: resolve → validate → admit → ask the bus → render its text → record.

Everything that calls a tool calls it here: a client's tools/call on either way, each message of a
batch, `call_tool`, and the composites for their sources. Each policy is one step of `_run`.

A failure that the model can act on is a reply with `is_error`, also where its arguments miss the
tool's schema (SEP-1303). What is wrong with the request itself is an `MCPError`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec import Raw, Struct
from msgspec.structs import replace
from opentelemetry import trace

from searchbus_bus import Bus, Call, Worker
from searchbus_bus.client.request import Deadline
from searchbus_bus.loop_watch import serves
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    TextContent,
    ToolCall,
    ToolDescriptor,
    ToolEvent,
    encode,
)

from ..catalog.view import ListedTool
from .arguments import check_arguments
from .audit import AuditLog
from .budgets import UNREPORTED, UNREPORTED_CREDITS, Budgets, Cost, tokens_of
from .faults import failed_reply, internal_error
from .limits import Limiter
from .reply import RawReply, Reply, shown
from .resolve import Resolver, Target

OnEvent = Callable[[ToolEvent], None]
SendEvent = Callable[[ToolEvent], Awaitable[None]]
MAX_PENDING_EVENTS = 1000
MISSING_CAPABILITY = -32021
log = logging.getLogger("searchbus.edge")
_CODES = frozenset(map(str, ErrorCode))


class ToolRequest(Struct, frozen=True):
    """One call.

    Args:
        target: what is called, see `Resolver`.
        arguments: decoded.
        raw_arguments: the same as JSON, where the caller has it.
        capabilities: that the client declared.
        input_responses, state: what the client gives back (see InputRequired).
        on_event: receives progress and log events.
        timeout_s: of a caller with a deadline of its own.
        for_composite: the current span is that of a composite, and keeps its name and outcome.
        recorded: who is in the audit log in place of the actor.
        continues: a call that was admitted; it is not another one of its caller, unless it costs
            money.
    """

    actor: Actor
    target: Target
    arguments: dict[str, Any]
    raw_arguments: Raw | None = None
    capabilities: tuple[str, ...] = ()
    input_responses: dict[str, Any] | None = None
    state: str | None = None
    on_event: OnEvent | None = None
    timeout_s: float | None = None
    for_composite: bool = False
    recorded: Actor | None = None
    continues: bool = False


class Served(Struct, frozen=True):
    """The tool that replied, and its reply; `fault`: of which the reply is made."""

    listed: ListedTool
    reply: Reply
    fault: Fault | None = None


class ForwardedEvents:
    """A callback that sends events to the client, in order and before the result.

        async with ForwardedEvents(send) as on_event:
            ...

    A client that does not read loses events beyond `MAX_PENDING_EVENTS`, and never the result.
    """

    __slots__ = ("_forwarding", "_queue", "_send")

    def __init__(self, send: SendEvent) -> None:
        self._send = send
        # Made at the first event: most calls send none.
        self._queue: asyncio.Queue[ToolEvent | None] | None = None
        self._forwarding: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Callable[[ToolEvent], None]:
        return self._on_event

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._queue is None or self._forwarding is None:
            return
        if kind is not None:
            self._forwarding.cancel()
            return
        try:
            await self._queue.put(None)
            await self._forwarding
        finally:  # the call may be cancelled while a client that does not read holds it here
            self._forwarding.cancel()

    def _on_event(self, event: ToolEvent) -> None:
        if self._queue is None:
            self._queue = asyncio.Queue(maxsize=MAX_PENDING_EVENTS)
            self._forwarding = asyncio.get_running_loop().create_task(self._forward(self._queue))
        if not self._queue.full():
            self._queue.put_nowait(event)

    async def _forward(self, queue: asyncio.Queue[ToolEvent | None]) -> None:
        while (event := await queue.get()) is not None:
            try:
                await self._send(event)
            except Exception:
                log.debug("an event could not be sent to the client", exc_info=True)


class ToolCalls:
    """Calls tools over the bus.

    Args:
        own: serves the edge's own tools, in this process; it offers them on the bus too.
        limiter: of all calls of one caller.
        costly: of one caller's calls to each tool that costs money.
        budgets: of a day; `None`: there are none.
        audit: records every call.
        timeout_cap_s: the most that a call may take, whatever its descriptor says.
    """

    def __init__(
        self,
        bus: Bus,
        resolver: Resolver,
        own: Worker,
        *,
        limiter: Limiter,
        costly: Limiter,
        audit: AuditLog,
        timeout_cap_s: float,
        budgets: Budgets | None = None,
    ) -> None:
        self.resolver = resolver
        self._bus = bus
        self._own = own
        self._limiter = limiter
        self._costly = costly
        self._budgets = budgets
        self._audit = audit
        self._timeout_cap_s = timeout_cap_s

    @serves(lambda names: f"tool {names['request'].target.name}, trace {_trace_id(names['span'])}")
    async def call(self, request: ToolRequest) -> Served:
        """Serve and record a call; raises MCPError (-32602: unknown tool; -32603: internal)."""
        started_s = time.perf_counter()
        outcome, size_bytes, cost = "cancelled", 0, Cost()
        span = trace.get_current_span()
        try:
            served = await self._run(request, span, cost)
            outcome, size_bytes = _outcome(served.reply)
            return served
        except MCPError as error:
            outcome = f"json-rpc {error.error.code}"
            raise
        except Exception:
            outcome = str(ErrorCode.INTERNAL)
            raise
        finally:
            duration_s = time.perf_counter() - started_s
            self._audit.record(
                request.recorded or request.actor, request.target.name[:128],
                request.target.listed, outcome=outcome, size_bytes=size_bytes,
                tokens=tokens_of(size_bytes), credits=cost.credits, duration_s=duration_s,
                span=span, arguments=request.arguments,
            )  # fmt: skip

    async def _run(self, request: ToolRequest, span: trace.Span, cost: Cost) -> Served:
        listed = self.resolver.require(request.target, request.actor)
        if not request.for_composite and span.is_recording():
            span.update_name(listed.span_name)
            span.set_attributes(listed.span_attributes)
        try:
            if listed.held:
                raise _held(listed)
            arguments = check_arguments(listed, request.arguments)
            if arguments is not request.arguments:
                request = replace(request, arguments=arguments, raw_arguments=None)
            if listed.passes_on:
                return await self._pass_on(request)
            require_capabilities(listed.descriptor, request.capabilities)
            await self._admit(request, listed)
            if listed.own:
                return Served(listed, shown(listed, await self._serve(listed, request)))
            return Served(listed, await self._ask_and_count(listed, request, cost))
        except Fault as fault:
            if not request.for_composite and span.is_recording():
                span.set_attribute("error.type", fault.code)
            if fault.code == ErrorCode.INTERNAL:
                raise internal_error() from None
            return Served(listed, Reply.of(failed_reply(fault)), fault)

    async def _pass_on(self, request: ToolRequest) -> Served:
        """The call that call_tool makes, with every policy of the tool that it names."""
        name, called = request.arguments["name"], request.target.called
        if called is not None and called.own:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"{name} cannot be called through itself. Use another tool.",
            )
        try:
            return await self.call(
                replace(
                    request, target=self.resolver.passed_on(request.target, name),
                    arguments=request.arguments.get("arguments", {}), raw_arguments=None,
                )
            )  # fmt: skip
        except MCPError as error:
            if error.error.code != types.INVALID_PARAMS:
                raise
            # The model chose name and arguments: an error result lets it correct them.
            hint = error.error.message.replace("tools/list shows", "find_tools finds")
            raise Fault(ErrorCode.INVALID_ARGUMENT, hint) from None

    async def _admit(self, request: ToolRequest, listed: ListedTool) -> None:
        """Count a call, but of the edge's own tools, which do so; raises Fault(rate_limited)."""
        caller, descriptor = request.actor.subject, listed.descriptor
        if listed.own or (request.continues and not descriptor.costly):
            return
        await self._limiter.admit(caller)
        if descriptor.costly:
            await self._costly.admit(f"{caller}/{descriptor.toolset}.{descriptor.name}")
        if self._budgets is not None:
            await self._budgets.admit(caller, costly=descriptor.costly)

    async def _ask_and_count(self, listed: ListedTool, request: ToolRequest, cost: Cost) -> Reply:
        """Ask the tool's service, and count what its answer costs; raises Fault."""
        tokens = 0
        if listed.descriptor.costly:
            cost.credits = UNREPORTED_CREDITS
        try:
            reply = shown(listed, await self._ask(listed, request))
            tokens, cost.credits = tokens_of(_outcome(reply)[1]), reply.credits
            return reply
        except Fault as fault:
            unreported = cost.credits if fault.code in UNREPORTED else 0.0
            cost.credits = max(unreported, fault.failure.credits)
            raise
        finally:
            if self._budgets is not None:
                self._budgets.spend(request.actor.subject, tokens=tokens, credits=cost.credits)

    async def _ask(self, listed: ListedTool, request: ToolRequest) -> Reply:
        """Send the request to the tool's service; raises Fault."""
        descriptor = listed.descriptor
        reply = await self._bus.request(
            self._bus.subjects.tool(descriptor.toolset, descriptor.name),
            _message(listed, request),
            RawReply,
            service=listed.service,
            timeout_s=self.timeout_s(listed, request),
            actor=request.actor,
            on_event=request.on_event,
            # After a lost worker or connection the work may have been done already.
            idempotent=descriptor.may_repeat,
        )
        return Reply.of(reply)

    async def _serve(self, listed: ListedTool, request: ToolRequest) -> Reply:
        """Serve one of the edge's own tools by its method; raises Fault."""
        endpoint = self._own.find_tool(listed.descriptor.toolset, listed.descriptor.name)
        assert endpoint is not None

        async def relay(event: ToolEvent) -> None:
            if request.on_event is not None:
                request.on_event(event)

        timeout_s = self.timeout_s(listed, request)
        call = Call(
            req_id=secrets.token_hex(16),
            service=self._own.service,
            subject=self._bus.subjects.tool(listed.descriptor.toolset, listed.descriptor.name),
            actor=request.actor,
            deadline=Deadline.after(timeout_s),
            relay=relay,
        )
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return Reply.of(await endpoint(call, _message(listed, request)))
        except TimeoutError:
            if not limit.expired():  # the tool's own TimeoutError
                raise
            raise Fault(
                ErrorCode.DEADLINE_EXCEEDED,
                f"{listed.name} could not finish in time. Try again, or ask for less.",
            ) from None

    def timeout_s(self, listed: ListedTool, request: ToolRequest) -> float:
        """The time limit of a call."""
        timeout_s = min(listed.descriptor.timeout_ms / 1000, self._timeout_cap_s)
        return timeout_s if request.timeout_s is None else min(timeout_s, request.timeout_s)


def require_capabilities(descriptor: ToolDescriptor, capabilities: tuple[str, ...]) -> None:
    """Raise -32021 naming the capabilities that the tool needs and the client did not declare."""
    missing = [name for name in descriptor.client_capabilities if name not in capabilities]
    if missing:
        raise MCPError(
            MISSING_CAPABILITY,
            f"The tool needs a client with {', '.join(missing)}.",
            {"requiredCapabilities": required_capabilities(missing)},
        )


def required_capabilities(names: Sequence[str]) -> dict[str, Any]:
    """Capabilities as a client declares them; names of extensions have a slash."""
    found: dict[str, Any] = {name: {} for name in names if "/" not in name}
    extensions: dict[str, Any] = {name: {} for name in names if "/" in name}
    return {**found, "extensions": extensions} if extensions else found


def _message(listed: ListedTool, request: ToolRequest) -> ToolCall:
    return ToolCall(
        tool=listed.descriptor.name,
        arguments=request.raw_arguments or Raw(encode(request.arguments)),
        input_responses=request.input_responses,
        state=request.state,
        client_capabilities=request.capabilities,
    )


def _trace_id(span: trace.Span) -> str:
    return format(span.get_span_context().trace_id, "032x")


def _held(listed: ListedTool) -> Fault:
    """The failure of a call to a tool whose service describes it in another way than approved."""
    return Fault(
        ErrorCode.UNAVAILABLE,
        f"{listed.name} is held: its service changed it ({listed.held}), and an operator has not "
        "approved the change. Use another tool.",
        retryable=False,
    )


def _outcome(reply: Reply) -> tuple[str, int]:
    """The outcome for the audit log, and the size of the text in bytes."""
    if reply.input_required is not None:
        return "input_required", 0
    size_bytes = len(reply.text or b"")
    size_bytes += sum(len(b.text.encode()) for b in reply.content if isinstance(b, TextContent))
    if not reply.is_error:
        return "ok", size_bytes
    error = (reply.value or {}).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    # A tool may write anything there, and each value would be a time series for ever.
    return code if isinstance(code, str) and code in _CODES else "error", size_bytes


def log_data(event: ToolEvent) -> Any:
    """The data of a log event as JSON values."""
    data = event.data if event.data is not None else event.message
    return json.loads(json.dumps(data, default=str))

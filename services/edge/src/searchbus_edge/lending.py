"""Lends toolsets to other tenants of the NATS server (setting LOANS, docs/operations.md).

On the bus of each tenant that borrows, this edge is a worker with the lent tools. All of a tenant
is one caller here: workers share by caller what they have (sessions of attached servers, processes
that read pages), and the borrower could invent any number of names. No lent tool can ask the client
for input: its state would pass through another tenant unsigned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace
from opentelemetry import trace

from searchbus_bus import ActorVerifier, Call, Seeds, Worker, connect, wait_for_event
from searchbus_bus.client.transit import Transit, TransitFullError
from searchbus_bus.telemetry import traceparent
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ToolCall,
    ToolDescriptor,
    ToolReply,
    decode,
)
from searchbus_runtime.loans import Loan

from .auth.identity import TENANT
from .catalog.registry import Registry
from .http.faults import HttpRefusedError
from .settings import EdgeSettings
from .tools.admission import HttpPolicy
from .tools.call import ForwardedEvents, ToolCalls, ToolRequest
from .tools.resolve import Target

log = logging.getLogger("searchbus.edge")
_LOOK_EVERY_S = 1.0
"""For a changed loan, and changed tools."""
_RETRY_S = 5.0
_COMPLETE_WITHIN_S = 30.0
"""For so long an edge that starts waits for the services of what it lends. The catalogue of the
worker that started last counts: with less, the borrower's lists would be shorter for a while."""
_MAX_SUBJECT = 256


class Lending:
    """Serves the loans of this edge, if any, under the limits and with the traces of `policy`."""

    def __init__(
        self, registry: Registry, calls: ToolCalls, settings: EdgeSettings, policy: HttpPolicy
    ) -> None:
        self._registry = registry
        self._calls = calls
        self._settings = settings
        self._policy = policy
        self._secret = settings.secret("loans", Loan.parse)
        self._lines: tuple[str, ...] = ()
        self._known: dict[str, Loan] = {}
        self._accepted: tuple[str, ...] = ()
        self._keys: dict[str, tuple[str, ...]] = {}
        self._stopping = asyncio.Event()
        self._drain_timeout_s = settings.drain_timeout_s
        self._following: asyncio.Task[None] | None = None
        self._serving: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Serve the loans, and follow their file."""
        if self._secret is not None:
            self._following = asyncio.get_running_loop().create_task(self._follow())

    async def drain(self, timeout_s: float) -> None:
        """Leave the buses of all borrowers; calls that they sent may take `timeout_s`."""
        self._drain_timeout_s = timeout_s
        self._stopping.set()
        if self._following is not None:
            await asyncio.wait([self._following])
        await asyncio.gather(*self._serving.values())

    def _loans(self) -> dict[str, Loan]:
        """Prefix of the borrower → its loan."""
        assert self._secret is not None
        lines = self._secret.values()
        if lines != self._lines:  # each borrower looks every second
            self._lines = lines
            self._known = {loan.prefix: loan for loan in map(Loan.parse, lines) if loan.service}
        return self._known

    def _public_keys(self, prefix: str) -> tuple[str, ...]:
        """Those of a borrower's edges; one that was retired is accepted for a while, since these
        edges may still sign with it."""
        assert self._secret is not None
        lines = self._secret.accepted()
        if lines != self._accepted:
            self._accepted, self._keys = lines, {}
            for loan in map(Loan.parse, lines):
                known = self._keys.get(loan.prefix, ())
                self._keys[loan.prefix] = (*known, *loan.public_keys)
        return self._keys.get(prefix, ())

    async def _follow(self) -> None:
        while True:
            loans = self._loans()
            self._serving = {p: task for p, task in self._serving.items() if not task.done()}
            for prefix in loans.keys() - self._serving.keys():
                task = asyncio.get_running_loop().create_task(self._lend(loans[prefix]))
                self._serving[prefix] = task
            if await wait_for_event(self._stopping, _LOOK_EVERY_S):
                return

    async def _lend(self, loan: Loan) -> None:
        """Serve one borrower until nothing is lent to it; a fault of one harms no other."""
        borrower = _Borrower(loan, self._registry, self._calls, self._policy, self._settings)
        keys = partial(self._public_keys, loan.prefix)
        borrower.options["verifier"] = ActorVerifier(keys)
        while borrower.follow(self._loans()):
            try:
                await self._serve(borrower)
            except Fault as fault:
                log.warning("nothing is lent to %s: %s", loan.borrower, fault)
            except Exception:
                log.exception("nothing is lent to %s", loan.borrower)
            if await wait_for_event(self._stopping, _RETRY_S):
                return

    async def _serve(self, borrower: _Borrower) -> None:
        """Be a worker on the borrower's bus; raises Fault(unavailable) if it is out of reach."""
        bus = await connect(self._settings.nats_url, name="edge", **borrower.options)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_COMPLETE_WITHIN_S):
                    while not (borrower.complete or self._stopping.is_set()):
                        await wait_for_event(self._stopping, _LOOK_EVERY_S)
            await borrower.offer()
            serving = await bus.serve(borrower.worker)
            log.info("%s borrows %s", borrower.name, ", ".join(borrower.toolsets.values()))
            try:
                while not await wait_for_event(self._stopping, _LOOK_EVERY_S):
                    lent = borrower.follow(self._loans())
                    if await borrower.offer():
                        await serving.refresh()
                    elif not lent:  # its edges have had a second to read that no tool is left
                        log.info("%s borrows nothing any more", borrower.name)
                        return
            finally:
                await serving.drain(self._drain_timeout_s)
        finally:
            await bus.close()


class _Borrower:
    """A tenant, the worker on its bus, and the tools that this one offers."""

    def __init__(
        self,
        loan: Loan,
        registry: Registry,
        calls: ToolCalls,
        policy: HttpPolicy,
        settings: EdgeSettings,
    ) -> None:
        self._loan = loan
        self.name = loan.borrower
        self.toolsets: Mapping[str, str] = {}
        """Their names there → here, as they are lent now."""
        self.worker = Worker(
            loan.service,
            max_in_flight=settings.max_in_flight,
            max_timeout_s=settings.call_timeout_cap_s,
            admit=partial(policy.abuse.admit, TENANT + loan.borrower),
            # An answer counts until the borrower has taken it, as one to a client.
            keeping=partial(Transit, TENANT + loan.borrower),
            shows_parts=False,
            description="Tools of another tenant.",
        )
        self.options: dict[str, Any] = {
            "prefix": loan.prefix,
            "inbox_prefix": loan.inbox_prefix,
            "seeds": Seeds(lambda: self._loan.seeds, user=loan.service, setting="loans"),
            "tls_files": settings.nats_tls,
        }
        self._registry = registry
        self._calls = calls
        self._policy = policy
        self._seen: Any = None
        self._offered: dict[tuple[str, str], ToolDescriptor] = {}
        """(toolset there, tool) → its descriptor here."""

    def follow(self, loans: Mapping[str, Loan]) -> bool:
        """Take over the loan as it is now, its keys too; False where it was withdrawn."""
        loan = loans.get(self._loan.prefix)
        self._loan = loan or self._loan
        self.toolsets = loan.toolsets if loan is not None else {}
        return loan is not None

    @property
    def complete(self) -> bool:
        """Whether there is a service for each toolset."""
        return all(map(self._registry.offers, self.toolsets.values()))

    async def offer(self) -> bool:
        """Let the worker offer the tools of today; False where they are as before."""
        views = {there: (here, self._registry.view(here)) for there, here in self.toolsets.items()}
        seen = {there: (here, view.version) for there, (here, view) in views.items()}
        if seen == self._seen:
            return False
        self._seen = seen
        wanted = {
            (there, name): listed.descriptor
            for there, (here, view) in views.items()
            for (toolset, name), listed in view.tool_of.items()
            if toolset == here
            and not (listed.required_roles or listed.descriptor.client_capabilities)
        }
        declared = max((tool.max_request_bytes for tool in wanted.values()), default=0)
        self.worker.max_request_bytes = self._policy.limits.of_tool(declared)
        before, self._offered = self._offered, wanted
        changed = [k for k in before.keys() | wanted.keys() if before.get(k) is not wanted.get(k)]
        lent = {key: wanted[key] for key in changed if key in wanted}
        # In a thread: of thousands of tools the schemas are checked again.
        made = await asyncio.to_thread(
            lambda: {
                key: replace(tool, toolset=key[0], untrusted=True) for key, tool in lent.items()
            }
        )
        for key in changed:
            self.worker.remove_tool(*key)
            if key in made:
                self.worker.add_tool(made[key], partial(self._call, self.toolsets[key[0]]))
        return bool(changed)

    async def _call(self, toolset: str, call: Call, request: ToolCall) -> ToolReply:
        tenant = Actor(subject=TENANT + self.name)
        view = self._registry.view(toolset)
        listed = view.tool_of.get((toolset, request.tool))
        target = Target(view, request.tool, listed, listed)
        try:
            self._policy.limits.check(bytes(request.arguments), target.max_request_bytes)
        except HttpRefusedError as refusal:
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{refusal.message} Send less.") from None
        # The current span is one of the borrower's trace.
        sent = traceparent(trace.get_current_span())
        message = self._policy.tracing.message("tools/call", None, None, header=(sent, ""), meta={})
        try:
            with message as outcome:
                async with ForwardedEvents(call.relay) as on_event:
                    recorded = f"{tenant.subject}/{call.actor.subject[:_MAX_SUBJECT]}"
                    asked = ToolRequest(
                        tenant, target, decode(bytes(request.arguments), dict[str, Any]),
                        raw_arguments=request.arguments, on_event=on_event,
                        timeout_s=call.remaining_s, recorded=Actor(subject=recorded),
                    )  # fmt: skip
                    served = await self._calls.call(asked)
                if served.reply.is_error:
                    outcome.error = "tool_error"
        except MCPError as error:
            if error.error.code != types.INVALID_PARAMS:
                raise Fault(ErrorCode.INTERNAL, error.error.message) from None
            # The text of the error may name services that are not lent.
            raise Fault(
                ErrorCode.NOT_FOUND,
                f"Unknown tool: {request.tool[:64]}. Use one that tools/list shows.",
            ) from None
        if served.reply.input_required is not None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{request.tool} asks its client for input, which a lent tool cannot. Use another.",
                retryable=False,
            )
        # A tool has done its work before its answer turns out to be too large: the borrower's edge
        # must not send the call again.
        if served.fault is not None and not isinstance(served.fault, TransitFullError):
            raise served.fault
        # Its JSON is that of a ToolReply.
        return cast("ToolReply", served.reply.sent())

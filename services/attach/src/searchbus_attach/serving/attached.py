"""One server on the bus: what of its list may be listed, and its calls.

The definitions pass in this order: the server's list → descriptors (describe.py) → what is approved
(pinning.py) → the operator's view of it (viewing.py). So a view is never lost when the server's
list changes, and never held as a change of the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from searchbus_bus import Call
from searchbus_contracts import ErrorCode, Fault, ToolCall, ToolDescriptor, ToolReply, decode
from searchbus_contracts.attach import AttachedServer, AttachedTool
from searchbus_runtime.pins import Reviewed

from ..declare.views import View
from ..definitions.describe import ServerTools
from ..definitions.fitting import Fitting
from ..definitions.pinning import Approvals
from ..definitions.replies import reply_of
from ..definitions.viewing import Shown, shown_tools
from ..metrics import count_mismatch, measured_call
from ..sessions.handover import Onward
from ..sessions.sessions import Sessions
from ..upstream.upstream import Upstream
from .contents import Contents

__all__ = ["Attached"]

log = logging.getLogger("searchbus.attach")
T = TypeVar("T")


class Attached:
    """An attached server.

    Args:
        upstream: the connection whose list counts, and which all callers share unless there are
            `sessions`.
        approvals: says what may be listed; it is asked again by `review`.
        on_change: called when `descriptors` changed because of an answer.
        sessions: of a server that has one for each caller.

    Attributes:
        contents: its prompts and resources as they are listed.
    """

    def __init__(
        self,
        upstream: Upstream,
        approvals: Approvals,
        view: View,
        on_change: Callable[[], None],
        sessions: Sessions | None = None,
    ) -> None:
        self.upstream = upstream
        self._sessions = sessions
        self.server = upstream.server
        self._approvals = approvals
        # Until the server has been asked, the list of the last run.
        self._reviewed = Reviewed(approvals.pinned(self.server))
        self._on_change = on_change
        self._output_schemas: dict[str, dict[str, Any]] = {}
        self._without_schema: set[str] = set()
        self._fittings: dict[str, Fitting] = {}
        self.source = Contents(self.server.name, self.do, lambda: self.contents)
        self.look_through(view)

    async def do(
        self, call: Call, here: Callable[[Upstream], Awaitable[T]], onward: Onward[T]
    ) -> T:
        """Do a call with the connection that is for it; see `Sessions.do`."""
        if self._sessions is None:
            return await here(self.upstream)
        return await self._sessions.do(call, here, onward)

    @property
    def known(self) -> bool:
        """Whether there is a list of its tools, of now or of the last run."""
        return self.upstream.lists.tools is not None or bool(self._reviewed.tools)

    @property
    def held(self) -> int:
        """How many definitions are held."""
        return len(self._reviewed.held)

    def try_now(self) -> None:
        """End the pauses of connections that failed."""
        self.upstream.try_now()
        if self._sessions is not None:
            self._sessions.callers.try_now()

    def end_unused(self) -> None:
        """Close the sessions of callers that did not use them for long."""
        if self._sessions is not None:
            self._sessions.callers.end_unused()

    async def end_sessions(self) -> None:
        """Close the sessions of callers, so that another worker can open them."""
        if self._sessions is not None:
            await self._sessions.callers.stop()

    async def stop(self) -> None:
        """Close all connections."""
        # Together: while one ends, no caller opens a session that would have to end next.
        await asyncio.gather(self.upstream.stop(), self.end_sessions())

    @property
    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """The tools as they are listed."""
        return tuple(
            msgspec.structs.replace(shown.descriptor, output_schema=None)
            if shown.name in self._without_schema
            else shown.descriptor
            for shown in self._shown.tools.values()
        )

    def look_through(self, view: View) -> None:
        """Show its tools, prompts and resources as a view does."""
        self.view = view
        self._shown = shown_tools(self.server, view, self._reviewed.tools, self._reviewed.held)
        roles = tuple(dict.fromkeys((*self.server.required_roles, *view.required_roles)))
        self.contents = self.upstream.lists.contents.shown(
            roles, prompts=view.prompts, resources=view.resources
        )

    def review(self) -> None:
        """Take the server's list as it is now, and the approvals as they are now."""
        tools = self.upstream.lists.tools
        if tools is None:
            self._reviewed = Reviewed(())
        else:
            self._reviewed = self._approvals.review(self.server, tools.descriptors)
        schemas = {
            tool.name: tool.output_schema
            for tool in self._reviewed.tools
            if tool.output_schema is not None
        }
        # What answers showed of a schema holds until the server changes it.
        same = {
            name for name, schema in schemas.items() if schema == self._output_schemas.get(name)
        }
        self._without_schema &= same
        self._fittings = {n: f for n, f in self._fittings.items() if n in same}
        self._output_schemas = schemas
        self.look_through(self.view)

    async def call(self, call: Call, request: ToolCall) -> ToolReply:
        """Call a tool of the server.

        Raises:
            Fault: unavailable while its definition is held or the server is away; or the failure.
        """
        name = self.server.name
        with measured_call(name, failures_only=True):
            shown = self._callable(request)
            arguments = decode(bytes(request.arguments), dict[str, object])

        async def here(upstream: Upstream) -> ToolReply:
            with measured_call(name):
                given = {**arguments, **shown.arguments}
                raw = await upstream.call(
                    call,
                    shown.name,
                    given,
                    may_repeat=shown.may_repeat,
                    check=lambda: self._callable(request),
                )
                reply = reply_of(name, raw, links=bool(self.contents.templates))
                self._compare(shown.name, reply)
                return reply

        onward = Onward("tool", name, request.tool, request, ToolReply, shown.may_repeat)
        return await self.do(call, here, onward)

    def _callable(self, request: ToolCall) -> Shown:
        """The tool that a call names. Raises Fault where it cannot be called."""
        shown = self._shown.tools.get(request.tool)
        name = request.tool if shown is None else shown.name
        held = self._reviewed.held.get(name)
        if held is not None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{name} is held: {self.server.name} changed it "
                f"({'; '.join(held.reasons)}), and an operator has not approved that. Use "
                f"another tool, or look with: searchbus attach diff {self.server.name}",
                retryable=False,
            )
        if shown is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                f"{self.server.name} has no such tool any more. List the tools again.",
            )
        return shown

    def _compare(self, name: str, reply: ToolReply) -> None:
        """Stop listing an output schema that a good answer does not fit: clients would refuse the
        next one.
        """
        schema = self._output_schemas.get(name)
        if reply.is_error or schema is None or name in self._without_schema:
            return
        fitting = self._fittings.get(name)
        if fitting is None:
            fitting = self._fittings[name] = Fitting(schema)
        if fitting.is_missed(reply.structured):
            count_mismatch(self.server.name)
            log.warning(
                "%s: an answer of %s does not fit its output schema, which is not listed any more",
                self.server.name, name,
            )  # fmt: skip
            self._without_schema.add(name)
            self._on_change()

    def status(self, *, with_tools: bool) -> AttachedServer:
        """Its state, for the operator."""
        upstream, lists, sessions = self.upstream, self.upstream.lists, self._sessions
        tools = lists.tools or ServerTools()
        refused = {**tools.refused, **lists.contents.refused}
        changed = self._approvals.changed(self.server, tools.descriptors)
        tool_list: list[AttachedTool] = []
        problem = str(upstream.problem)  # a Problem is no JSON
        if problem and upstream.state == "starting":
            problem = f"the last try: {problem}"
        if with_tools:
            listed = {tool.name for tool in self._reviewed.tools}
            listed_as = self._shown.listed_as
            for name in dict.fromkeys([*listed, *changed]):
                held = changed.get(name)
                reason = "; ".join(held.reasons) if held is not None else ""
                if name in listed and not self.view.allows(name):
                    reason = reason or "the view leaves it out"
                tool_list.append(
                    AttachedTool(
                        name=tools.own_names.get(name, name),
                        listed_as=listed_as.get(name, ""),
                        problem=reason,
                        sha256=held.sha256 if held is not None else "",
                    )
                )
            tool_list += [
                AttachedTool(name=name, listed_as="", problem=reason)
                for name, reason in refused.items()
            ]
        return AttachedServer(
            name=self.server.name,
            state=upstream.state,
            target=self.server.target,
            tools=len(self._shown.tools),
            prompts=len(self.contents.prompts),
            resources=len(self.contents.resources),
            view_problems=self._shown.problems,
            held=len(changed),
            refused=len(refused),
            stale=lists.stale or (lists.tools is None and bool(self._reviewed.tools)),
            problem=problem,
            server_info=upstream.server_info,
            protocol=upstream.protocol,
            restarts=upstream.restarts,
            dropped=upstream.budget.dropped,
            in_flight=upstream.in_flight + (sessions.callers.in_flight if sessions else 0),
            tool_list=tuple(tool_list),
        )

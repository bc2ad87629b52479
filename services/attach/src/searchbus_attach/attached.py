"""One server on the bus: what of its list may be listed, and its calls.

The definitions pass in this order: the server's list → descriptors (describe.py) → what is approved
(pinning.py) → the operator's view of it (viewing.py). So a view is never lost when the server's
list changes, and never held as a change of the server.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from searchbus_bus import Call
from searchbus_contracts import (
    ErrorCode,
    Fault,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceTemplate,
    ToolCall,
    ToolDescriptor,
    ToolReply,
    decode,
)
from searchbus_contracts.attach import AttachedServer, AttachedTool
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
)
from searchbus_runtime.pins import Held, Reviewed

from .declare.views import DeclaredView, Shape
from .definitions.describe import ServerTools
from .definitions.pinning import Approvals
from .definitions.replies import completion_of, prompt_of, reply_of, resource_of
from .definitions.schemas import Fitting
from .definitions.text import own_uri
from .definitions.viewing import ViewedDefinition, shown_tools
from .metrics import MeasuredCall, count
from .policy import CallPolicy
from .rests import rest_template
from .sessions.sessions import Sessions
from .upstream.session import ServerRequest
from .upstream.upstream import Upstream

log = logging.getLogger("searchbus.attach")
T = TypeVar("T")


class Attached:
    """An attached server.

    Args:
        upstream: the connection whose list counts, and which all callers share unless there are
            `sessions`.
        approvals: says what may be listed; it is asked again by `review`.
        on_change: called when `descriptors` changed because of an answer.
        sessions: the sessions of callers, where each has one.
        policy: applies the view to calls.

    Attributes:
        contents: its prompts and resources as they are listed.
        reviewed: what of its list is approved, and what is held.
    """

    def __init__(
        self,
        upstream: Upstream,
        approvals: Approvals,
        view: DeclaredView,
        on_change: Callable[[], None],
        sessions: Sessions | None = None,
        *,
        policy: CallPolicy,
    ) -> None:
        self.upstream = upstream
        self._policy = policy
        self._sessions = sessions
        self.server = upstream.server
        self._approvals = approvals
        # Until the server has been asked, the list of the last run.
        self.reviewed = Reviewed(approvals.pinned(self.server))
        self._on_change = on_change
        self._fittings: dict[str, Fitting] = {}
        self.look_through(view)

    @property
    def known(self) -> bool:
        """Whether there is a list of its tools, of now or of the last run."""
        return self.upstream.lists.tools is not None or bool(self.reviewed.tools)

    @property
    def held(self) -> int:
        """How many definitions wait for an approval."""
        return sum(not held.refused for held in self.reviewed.held.values())

    def try_now(self) -> None:
        """End the pauses of connections that failed."""
        self.upstream.try_now()
        if self._sessions is not None:
            self._sessions.try_now()

    def end_unused(self) -> None:
        """Close the sessions of callers that did not use them for long."""
        if self._sessions is not None:
            self._sessions.end_unused()

    async def stop(self) -> None:
        """Close all connections."""
        # Together: while one ends, no caller opens a session that would have to end next.
        sessions = [] if self._sessions is None else [self._sessions.stop()]
        await asyncio.gather(self.upstream.stop(), *sessions)

    @property
    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """The tools as they are listed."""
        return tuple(
            msgspec.structs.replace(shown.descriptor, output_schema=None)
            if shown.name in self._fittings and self._fittings[shown.name].missed
            else shown.descriptor
            for shown in self._shown.tools.values()
        )

    @property
    def templates(self) -> tuple[ResourceTemplate, ...]:
        """Those of its contents, and the one of rests where a view has a budget."""
        if any(shown.shape.max_tokens for shown in self._shown.tools.values()):
            return (rest_template(self.server.name), *self.contents.templates)
        return self.contents.templates

    def look_through(self, view: DeclaredView) -> None:
        """Show its tools, prompts and resources as a view does."""
        self.view = view
        self._shown = shown_tools(self.server, view, self.reviewed.tools, self.reviewed.held)
        roles = tuple(dict.fromkeys((*self.server.required_roles, *view.required_roles)))
        self.contents = self.upstream.lists.contents.shown(
            roles, prompts=view.prompts, resources=view.resources
        )

    def review(self) -> None:
        """Take the server's list as it is now, and the approvals as they are now."""
        tools = self.upstream.lists.tools
        if tools is None:
            self.reviewed = Reviewed(())
        else:
            self.reviewed = self._approvals.review(self.server, tools.descriptors)
        fittings = {}
        for tool in self.reviewed.tools:
            if tool.output_schema is not None:
                # What answers showed of a schema holds until the server changes it.
                known = self._fittings.get(tool.name)
                same = known is not None and known.schema == tool.output_schema
                fittings[tool.name] = known if known and same else Fitting(tool.output_schema)
        self._fittings = fittings
        self.look_through(self.view)

    async def call(self, call: Call, request: ToolCall) -> ToolReply:
        """Call a tool of the server.

        Raises:
            Fault: unavailable while its definition is held or the server is away; or the failure.
        """
        name = self.server.name
        with MeasuredCall(name, failures_only=True):
            shown = self._callable(request)
            arguments = decode(bytes(request.arguments), dict[str, object])
            question = await self._policy.before(call, request, name, shown, arguments)
        if question is not None:
            return question
        reply = await self._request(
            call,
            ServerRequest(
                "tools/call",
                functools.partial(self._tool_params, request, {**arguments, **shown.arguments}),
                lambda raw: reply_of(name, raw, links=bool(self.contents.templates)),
                "tool", name, request.tool, request, ToolReply, shown.descriptor.may_repeat,
            ),
        )  # fmt: skip
        if shown.shape == Shape():  # else its schema is not listed, and another worker shapes too
            self._compare(shown.name, reply)
        return await self._policy.after(call, name, shown, reply)

    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """Read a resource of the server.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        name = self.server.name
        rest = await self._policy.rests.read(call.actor, name, request.uri)
        if rest is not None:
            return rest
        uri = self._own_uri(request.uri)
        return await self._ask(
            call,
            ServerRequest(
                "resources/read", lambda _: {"uri": uri}, functools.partial(resource_of, name),
                "resource", name, "read", request, ResourceReadReply,
            ),
        )  # fmt: skip

    async def get_prompt(self, call: Call, request: PromptGetRequest) -> PromptGetReply:
        """Fill in a prompt of the server.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        name = self.server.name
        params = {"name": self._own_name(request.prompt), "arguments": request.arguments}
        reply = functools.partial(prompt_of, name, links=bool(self.contents.templates))
        return await self._ask(
            call,
            ServerRequest(
                "prompts/get", lambda _: params, reply,
                "prompt", name, "get", request, PromptGetReply,
            ),
        )  # fmt: skip

    async def complete(self, call: Call, request: CompleteRequest) -> CompleteReply:
        """Ask the server for values of an argument.

        Raises:
            Fault: not_found, or why the server cannot be asked.
        """
        family: Literal["resource", "prompt"] = "prompt"
        if own_uri(self.server.name, request.name) is not None:
            family = "resource"
            reference = {"type": "ref/resource", "uri": self._own_uri(request.name)}
        else:
            reference = {"type": "ref/prompt", "name": self._own_name(request.name)}
        params: dict[str, Any] = {
            "ref": reference,
            "argument": {"name": request.argument, "value": request.value},
        }
        if request.arguments:
            params["context"] = {"arguments": request.arguments}
        name = self.server.name
        return await self._ask(
            call,
            ServerRequest(
                "completion/complete", lambda _: params, functools.partial(completion_of, name),
                family, name, "complete", request, CompleteReply,
            ),
        )  # fmt: skip

    async def _ask(self, call: Call, wanted: ServerRequest[T]) -> T:
        """Send a request for prompts or resources, of a caller who has the roles."""
        call.actor.require(self.contents.required_roles)
        return await self._request(call, wanted)

    async def _request(self, call: Call, wanted: ServerRequest[T]) -> T:
        """Send a request by the connection that is for its caller."""
        if self._sessions is None:
            return await self.upstream.request(call, wanted)
        return await self._sessions.request(call, wanted)

    def _own_uri(self, address: str) -> str:
        uri = own_uri(self.server.name, address)
        if uri is None or not self.contents.templates:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "There is no such resource. Take a URI from the list of resources.",
            )
        return uri

    def _own_name(self, prompt: str) -> str:
        name = self.contents.own_names.get(prompt)
        if name is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                f"{self.server.name} has no such prompt any more. List the prompts again.",
            )
        return name

    def _tool_params(
        self, request: ToolCall, arguments: dict[str, object], tools: ServerTools
    ) -> dict[str, object]:
        """The parameters of a call, by the list of the connection that it is sent on."""
        own_name = tools.own_names.get(self._callable(request).name)
        if own_name is None:
            raise self._no_such_tool()
        return {"name": own_name, "arguments": arguments}

    def _callable(self, request: ToolCall) -> ViewedDefinition:
        """The tool that a call names. Raises Fault where it cannot be called."""
        shown = self._shown.tools.get(request.tool)
        name = request.tool if shown is None else shown.name
        held = self.reviewed.held.get(name)
        if held is not None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{name} is held: {self.server.name} changed it "
                f"({'; '.join(held.reasons)}), and an operator "
                f"{'refused' if held.refused else 'has not approved'} that. Use "
                f"another tool, or look with: searchbus attach diff {self.server.name}",
                retryable=False,
            )
        if shown is None:
            raise self._no_such_tool()
        return shown

    def _no_such_tool(self) -> Fault:
        return Fault(
            ErrorCode.NOT_FOUND,
            f"{self.server.name} has no such tool any more. List the tools again.",
        )

    def _compare(self, name: str, reply: ToolReply) -> None:
        """Stop listing an output schema that a good answer does not fit: clients would refuse the
        next one.
        """
        fitting = self._fittings.get(name)
        if reply.is_error or fitting is None or fitting.missed:
            return
        if fitting.is_missed(reply.structured):
            count("mismatches", server=self.server.name)
            log.warning(
                "%s: an answer of %s does not fit its output schema, which is not listed any more",
                self.server.name, name,
            )  # fmt: skip
            fitting.missed = True
            self._on_change()

    @property
    def changed(self) -> dict[str, Held]:
        """What differs from the approved definitions, by name."""
        tools = self.upstream.lists.tools or ServerTools()
        return self._approvals.changed(self.server, tools.descriptors)

    def status(self, *, with_tools: bool) -> AttachedServer:
        """Its state, for the operator."""
        upstream, lists, sessions = self.upstream, self.upstream.lists, self._sessions
        tools = lists.tools or ServerTools()
        refused = {**tools.refused, **lists.contents.refused}
        changed = self.changed
        tool_list: list[AttachedTool] = []
        problem = str(upstream.problem)  # a Problem is no JSON
        if problem and upstream.state == "starting":
            problem = f"the last try: {problem}"
        if with_tools:
            listed = {tool.name for tool in self.reviewed.tools}
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
            held=sum(not one.refused for one in changed.values()),
            refused=len(refused),
            stale=lists.stale or (lists.tools is None and bool(self.reviewed.tools)),
            problem=problem,
            server_info=upstream.server_info,
            protocol=upstream.protocol,
            restarts=upstream.restarts,
            dropped=upstream.budget.dropped,
            in_flight=upstream.in_flight + (sessions.in_flight if sessions else 0),
            tool_list=tuple(tool_list),
        )

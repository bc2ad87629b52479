"""One server on the bus: what of its list may be listed, and its calls.

The definitions pass in this order: the server's list → descriptors (describe.py) → what is approved
(pinning.py) → what the operator adds. So an overlay is never lost when the server's list changes,
and never held as a change of the server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jsonschema_rs
import msgspec

from searchbus_bus import Call
from searchbus_contracts import ErrorCode, Fault, ToolCall, ToolDescriptor, ToolReply, decode
from searchbus_contracts.attach import AttachedServer, AttachedTool
from searchbus_runtime.pins import Reviewed

from .callers import Callers
from .contents import Contents
from .describe_contents import ServerContents
from .metrics import count_mismatch, record_call
from .pinning import Approvals
from .replies import reply_of
from .upstream import Upstream

__all__ = ["Attached"]

log = logging.getLogger("searchbus.attach")
Item = TypeVar("Item", bound=msgspec.Struct)


class Attached:
    """An attached server.

    Args:
        upstream: the connection whose list counts, and which all callers share unless there are
            `callers`.
        approvals: says what may be listed; it is asked again by `review`.
        on_change: called when `descriptors` changed because of an answer.
        callers: the connections of a server that has one for each caller.
    """

    def __init__(
        self,
        upstream: Upstream,
        approvals: Approvals,
        on_change: Callable[[], None],
        callers: Callers | None = None,
    ) -> None:
        self.upstream = upstream
        self.callers = callers
        self.server = upstream.server
        self._approvals = approvals
        # Until the server has been asked, the list of the last run.
        self._reviewed = Reviewed(approvals.pinned(self.server))
        self._on_change = on_change
        self._output_schemas: dict[str, dict[str, Any]] = {}
        self._without_schema: set[str] = set()
        self._validators: dict[str, jsonschema_rs.Validator] = {}
        self.source = Contents(self.server, self.upstream_of, lambda: self.contents)

    def upstream_of(self, call: Call) -> Upstream:
        """The connection for a call. Raises Fault(overloaded), see Callers."""
        return self.upstream if self.callers is None else self.callers.of(call.actor.subject)

    async def stop(self) -> None:
        """Close all connections."""
        await self.upstream.stop()
        if self.callers is not None:
            await self.callers.stop()

    @property
    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """The tools as they are listed."""
        roles = self.server.required_roles
        return tuple(
            msgspec.structs.replace(
                tool,
                required_roles=roles,
                output_schema=None if tool.name in self._without_schema else tool.output_schema,
                timeout_ms=int(self.server.call_timeout_s * 1000),
            )
            for tool in self._reviewed.tools
        )

    @property
    def contents(self) -> ServerContents:
        """The prompts and resources as they are listed."""
        found, roles = self.upstream.contents, self.server.required_roles
        if not roles:
            return found

        def with_roles(items: tuple[Item, ...]) -> tuple[Item, ...]:
            return tuple(msgspec.structs.replace(item, required_roles=roles) for item in items)

        return dataclasses.replace(
            found,
            prompts=with_roles(found.prompts),
            resources=with_roles(found.resources),
            templates=with_roles(found.templates),
        )

    def review(self) -> None:
        """Take the server's list as it is now, and the approvals as they are now."""
        tools = self.upstream.tools
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
        self._validators = {n: v for n, v in self._validators.items() if n in same}
        self._output_schemas = schemas

    async def call(self, call: Call, request: ToolCall) -> ToolReply:
        """Call a tool of the server.

        Raises:
            Fault: unavailable while its definition is held or the server is away; or the failure.
        """
        started_s = time.perf_counter()
        code = "ok"
        try:
            return await self._call(call, request)
        except Fault as fault:
            code = fault.code
            raise
        except asyncio.CancelledError:
            code = "cancelled"
            raise
        except Exception:
            code = ErrorCode.INTERNAL.value
            raise
        finally:
            record_call(time.perf_counter() - started_s, self.server.name, code)

    async def _call(self, call: Call, request: ToolCall) -> ToolReply:
        held = self._reviewed.held.get(request.tool)
        if held is not None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{request.tool} is held: {self.server.name} changed it "
                f"({'; '.join(held.reasons)}), and an operator has not approved that: "
                f"searchbus attach diff {self.server.name}",
                retryable=False,
            )
        arguments = decode(bytes(request.arguments), dict[str, object])
        raw = await self.upstream_of(call).call(call, request.tool, arguments)
        reply = reply_of(self.server.name, raw, links=bool(self.upstream.contents.templates))
        self._compare(request.tool, reply)
        return reply

    def _compare(self, name: str, reply: ToolReply) -> None:
        """Stop listing an output schema that a good answer does not fit: clients would refuse the
        next one.
        """
        schema = self._output_schemas.get(name)
        if reply.is_error or schema is None or name in self._without_schema:
            return
        validator = self._validators.get(name)
        if validator is None:
            validator = jsonschema_rs.Draft202012Validator(schema, offline=True)
            self._validators[name] = validator
        if not validator.is_valid(reply.structured):
            count_mismatch(self.server.name)
            log.warning(
                "%s: an answer of %s does not fit its output schema, which is not listed any more",
                self.server.name, name,
            )  # fmt: skip
            self._without_schema.add(name)
            self._on_change()

    def status(self, *, with_tools: bool) -> AttachedServer:
        """Its state, for the operator."""
        upstream = self.upstream
        refused = {**(upstream.tools.refused if upstream.tools is not None else {})}
        refused |= upstream.contents.refused
        changed = self._approvals.changed(
            self.server, upstream.tools.descriptors if upstream.tools is not None else ()
        )
        tool_list: list[AttachedTool] = []
        if with_tools:
            listed = {tool.name: tool for tool in self._reviewed.tools}
            own_names = upstream.tools.own_names if upstream.tools is not None else {}
            for name in dict.fromkeys([*listed, *changed]):
                held = changed.get(name)
                tool = listed.get(name)
                tool_list.append(
                    AttachedTool(
                        name=own_names.get(name, name),
                        listed_as=(tool.qualified_name or name) if tool is not None else "",
                        problem="; ".join(held.reasons) if held is not None else "",
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
            tools=len(self._reviewed.tools),
            prompts=len(upstream.contents.prompts),
            resources=len(upstream.contents.resources),
            held=len(changed),
            refused=len(refused),
            stale=upstream.stale or (upstream.tools is None and bool(self._reviewed.tools)),
            problem=upstream.problem,
            server_info=upstream.server_info,
            protocol=upstream.protocol,
            restarts=upstream.restarts,
            in_flight=upstream.in_flight + (self.callers.in_flight if self.callers else 0),
            tool_list=tuple(tool_list),
        )

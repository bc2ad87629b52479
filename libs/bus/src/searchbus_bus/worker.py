"""What a service offers, declared without a connection.

    worker = Worker("dictionary")
    worker.tool(LOOKUP, Lookup, lookup)          # async lookup(call, arguments) -> Entry
    worker.endpoint("search", SearchRequest, search)

The same worker is served over NATS and over the in-memory twin, by `Bus.serve`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from searchbus_contracts import (
    VERSION,
    Actor,
    Catalog,
    ErrorCode,
    Fault,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
    ResourceTemplate,
    ToolCall,
    ToolDescriptor,
    ToolEvent,
    ToolReply,
    decode,
)

from .deadline import Deadline

__all__ = ["Call", "Endpoint", "ToolEndpoint", "Worker"]

A = TypeVar("A")
Handler = Callable[["Call", Any], Awaitable[Any]]


class Call:
    """One request as its handler sees it.

    The last three belong to tools that ask the client for input (`InputRequired`): its answers,
    the tool's own state given back, and what the client can be asked for.
    """

    def __init__(
        self,
        *,
        req_id: str,
        service: str,
        subject: str,
        actor: Actor,
        deadline: Deadline,
        send_event: Callable[[ToolEvent], Awaitable[None]],
    ) -> None:
        self.req_id = req_id
        self.input_responses: dict[str, Any] | None = None
        self.state: str | None = None
        self.client_capabilities: tuple[str, ...] = ()
        self.service = service
        self.subject = subject
        self.actor = actor
        self._deadline = deadline
        self._send_event = send_event

    @property
    def remaining_s(self) -> float:
        """Seconds until the caller's deadline; the handler is cancelled when they are over."""
        return max(0.0, self._deadline.remaining_s)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the caller how far the work is; `progress` must grow with every call."""
        await self._send_event(
            ToolEvent(kind="progress", progress=progress, total=total, message=message)
        )

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a line to the client's log; level is one of syslog's eight, in lower case."""
        await self._send_event(
            msgspec.convert(
                {"kind": "log", "level": level, "data": data, "logger": logger}, ToolEvent
            )
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A typed request: how to decode it and who answers."""

    request_type: Any
    handler: Handler

    async def __call__(self, call: Call, body: bytes) -> Any:
        """Decode, handle, return the reply Struct."""
        return await self.handler(call, decode(body, self.request_type))


@dataclass(frozen=True, slots=True)
class ToolEndpoint:
    """A tool: checks the caller's roles, decodes the arguments, shapes the reply."""

    descriptor: ToolDescriptor
    arguments: type[msgspec.Struct]
    handler: Handler

    async def __call__(self, call: Call, request: ToolCall) -> ToolReply:
        """Handle one call of the tool."""
        if not call.actor.holds(self.descriptor.required_roles):
            raise Fault(ErrorCode.FORBIDDEN, "The caller's roles do not allow this tool.")
        call.input_responses = request.input_responses
        call.state = request.state
        call.client_capabilities = request.client_capabilities
        value = await self.handler(call, decode(bytes(request.arguments), self.arguments))
        if isinstance(value, ToolReply):
            return value
        if self.descriptor.renderer == "results":
            value = {"results": value}
        return ToolReply(structured=msgspec.to_builtins(value))


class Worker:
    """A service's tools, endpoints, prompts and resources.

    Args:
        service: the service's name, also its queue group.
        version: semantic version, told in `$SRV.INFO`.
        max_in_flight: requests handled at once; further ones are shed with `overloaded`.
    """

    def __init__(
        self,
        service: str,
        *,
        version: str = VERSION,
        max_in_flight: int = 64,
        description: str = "",
    ) -> None:
        self.service = service
        self.version = version
        self.max_in_flight = max_in_flight
        self.description = description
        self.endpoints: dict[str, Endpoint] = {}
        self.resource_readers: dict[str, dict[str, Endpoint]] = {}
        self._tools: dict[tuple[str, str], ToolEndpoint] = {}
        self._prompts: dict[tuple[str, str], PromptDescriptor] = {}
        self._resources: dict[str, ResourceDescriptor] = {}
        self._templates: dict[str, ResourceTemplate] = {}

    def tool(
        self,
        descriptor: ToolDescriptor,
        arguments: type[A],
        handler: Callable[[Call, A], Awaitable[Any]],
    ) -> None:
        """Offer a tool.

        The handler returns what the descriptor's renderer needs: a `ToolReply` for "content", one
        object for "json", a list of objects for "results".
        """
        self._tools[descriptor.toolset, descriptor.name] = ToolEndpoint(
            descriptor,
            arguments,  # type: ignore[arg-type]
            handler,
        )

    def withdraw_tool(self, toolset: str, name: str) -> None:
        """Offer a tool no longer; `Serving.refresh` tells the others."""
        self._tools.pop((toolset, name), None)

    def endpoint(
        self,
        verb: str,
        request_type: type[A],
        handler: Callable[[Call, A], Awaitable[Any]],
    ) -> None:
        """Answer a typed request on `<prefix>.v1.<service>.<verb>`."""
        self.endpoints[verb] = Endpoint(request_type, handler)

    def prompts(self, *descriptors: PromptDescriptor) -> None:
        """Offer prompts."""
        self._prompts.update({(d.toolset, d.name): d for d in descriptors})

    def resources(self, *descriptors: ResourceDescriptor) -> None:
        """Offer resources with fixed URIs."""
        self._resources.update({d.uri: d for d in descriptors})

    def resource_templates(self, *descriptors: ResourceTemplate) -> None:
        """Offer families of resources."""
        self._templates.update({d.uri_template: d for d in descriptors})

    def reads_resources(
        self,
        toolset: str,
        read: Callable[[Call, ResourceReadRequest], Awaitable[ResourceReadReply]],
        list_page: Callable[[Call, ResourceListRequest], Awaitable[ResourceListReply]]
        | None = None,
        search: Callable[[Call, ResourceSearchRequest], Awaitable[ResourceSearchReply]]
        | None = None,
    ) -> None:
        """Answer `resource.<toolset>.read`; `.list` and `.search` where a template says so."""
        readers = {"read": Endpoint(ResourceReadRequest, read)}
        if list_page is not None:
            readers["list"] = Endpoint(ResourceListRequest, list_page)
        if search is not None:
            readers["search"] = Endpoint(ResourceSearchRequest, search)
        self.resource_readers[toolset] = readers

    def find_tool(self, toolset: str, name: str) -> ToolEndpoint | None:
        """The tool of that name, where it is offered."""
        return self._tools.get((toolset, name))

    @property
    def catalog(self) -> Catalog:
        """All that is offered to clients, sorted, so that equal offers have equal hashes."""
        return Catalog(
            service=self.service,
            tools=tuple(self._tools[key].descriptor for key in sorted(self._tools)),
            prompts=tuple(self._prompts[key] for key in sorted(self._prompts)),
            resources=tuple(self._resources[key] for key in sorted(self._resources)),
            resource_templates=tuple(self._templates[key] for key in sorted(self._templates)),
        )

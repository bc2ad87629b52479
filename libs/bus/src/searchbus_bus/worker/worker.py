"""What a service offers, declared without a connection; `Bus.serve` serves it over any broker."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from searchbus_contracts import (
    VERSION,
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
    ToolReply,
    decode,
)
from searchbus_contracts.resources import (
    CompleteReply,
    CompleteRequest,
    PromptGetReply,
    PromptGetRequest,
    UriTemplate,
)

from ..client.parts import MAX_BODY_BYTES
from .describe import (
    ReplyForm,
    check_limits,
    check_type,
    describe_method,
    describe_prompt,
    described,
    endpoint_types,
)
from .toolset import Call, DeclarationError, Toolset, counting, declarations

K = TypeVar("K")
V = TypeVar("V", PromptDescriptor, ResourceDescriptor, ResourceTemplate)
ToolHandler = Callable[[Call, ToolCall], Awaitable[ToolReply]]
"""Handles the calls of a tool; the arguments are not decoded."""
_Read = Callable[[Call, ResourceReadRequest], Awaitable[ResourceReadReply]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A typed request: the types of request and reply, the handler, the roles it needs."""

    request_type: Any
    handler: Callable[[Call, Any], Awaitable[Any]]
    reply_type: Any = None
    required_roles: tuple[str, ...] = ()

    async def __call__(self, call: Call, body: bytes) -> Any:
        """Decode, handle, return the reply Struct; raises Fault(forbidden) without the roles."""
        call.actor.require(self.required_roles)
        reply = await self.handler(call, decode(body, self.request_type))
        if self.reply_type is not None:
            check_type(reply, self.reply_type)
        return reply


@dataclass(frozen=True, slots=True)
class ToolEndpoint:
    """A tool: checks the caller's roles, then calls the handler."""

    descriptor: ToolDescriptor
    handler: ToolHandler

    async def __call__(self, call: Call, request: ToolCall) -> ToolReply:
        """Handle one call of the tool; raises Fault(forbidden) where a role is missing."""
        call.actor.require(self.descriptor.required_roles)
        call.input_responses = request.input_responses
        call.state = request.state
        call.client_capabilities = request.client_capabilities
        return await self.handler(call, request)


class ContentSource(Protocol):
    """Reads resources and fills in prompts that are known only at run time; raises Fault."""

    async def read(self, call: Call, request: ResourceReadRequest, /) -> ResourceReadReply:
        """Read a resource."""
        ...

    async def get_prompt(self, call: Call, request: PromptGetRequest, /) -> PromptGetReply:
        """Fill in a prompt."""
        ...

    async def complete(self, call: Call, request: CompleteRequest, /) -> CompleteReply:
        """Suggest values of an argument of a prompt, or of a variable of a template."""
        ...


class Worker:
    """A service's tools, endpoints, prompts and resources.

    Args:
        service: the service's name, also its queue group.
        version: semantic version, sent in `$SRV.INFO` replies.
        max_in_flight: requests handled at once.
        max_waiting: further requests that may wait for a moment (see intake.py); others are
            refused with `overloaded`. As many as are handled by default, and at least 16.
        max_request_bytes: a larger request in parts is refused before any part is fetched.
        max_timeout_s: the most time that a request has, whatever its caller gives it.
        admit: counts each request before anything of it is looked at; raises Fault(rate_limited).
        keeping: entered for each request, until its reply is sent.
        shows_parts: whether whoever pings may know what the other parts of the process say of
            themselves (live.py); not where another tenant does.
    """

    def __init__(
        self,
        service: str,
        *,
        version: str = VERSION,
        max_in_flight: int = 64,
        max_waiting: int | None = None,
        max_request_bytes: int = MAX_BODY_BYTES,
        max_timeout_s: float = math.inf,
        admit: Callable[[], Awaitable[None]] | None = None,
        keeping: Callable[[], AbstractContextManager[Any]] = nullcontext,
        shows_parts: bool = True,
        description: str = "",
    ) -> None:
        self.service = service
        self.version = version
        self.max_in_flight = max_in_flight
        self.max_waiting = max(16, max_in_flight) if max_waiting is None else max_waiting
        self.max_request_bytes = max_request_bytes
        self.max_timeout_s = max_timeout_s
        self.admit = admit
        self.keeping = keeping
        self.shows_parts = shows_parts
        self.description = description
        self.endpoints: dict[str, Endpoint] = {}
        self.content_endpoints: dict[tuple[str, str, str], Endpoint] = {}
        """By family (resource or prompt), toolset and verb."""
        self._tools: dict[tuple[str, str], ToolEndpoint] = {}
        self._prompts: dict[tuple[str, str], PromptDescriptor] = {}
        self._resources: dict[str, ResourceDescriptor] = {}
        self._templates: dict[str, ResourceTemplate] = {}

    def add(self, *parts: object) -> None:
        """Offer what the decorated methods of each part declare: toolsets and endpoints. Raises
        DeclarationError that says what to do."""
        for part in parts:
            found = list(declarations(type(part)))
            if not found:
                raise DeclarationError(
                    f"{type(part).__name__} has no decorated methods. Mark them with @tool, "
                    "@prompt, @resource or @endpoint."
                )
            for name, declaration in found:
                if declaration.kind == "endpoint":
                    self._add_endpoint(part, name, declaration.options["required_roles"])
                elif not isinstance(part, Toolset):
                    raise DeclarationError(
                        f"{type(part).__name__}.{name}: only a Toolset offers tools, prompts and "
                        "resources. Make the class one."
                    )
                elif declaration.kind == "tool":
                    kind: Any = type(part)  # as in `declared_tools`
                    descriptor, arguments, form = describe_method(kind, name, declaration)
                    descriptor = check_limits(part.configure(descriptor))
                    self.add_tool(descriptor, _decoding(getattr(part, name), arguments, form))
                elif declaration.kind == "prompt":
                    described = describe_prompt(part, name, declaration)
                    self._prompts[described.toolset, described.name] = described
            if isinstance(part, Toolset):
                self._add_resources(part)

    def add_tool(self, descriptor: ToolDescriptor, handler: ToolHandler) -> None:
        """Offer a tool whose descriptor is known only at run time; while the worker is served,
        `Serving.refresh` announces it. Raises DeclarationError for a name that is taken."""
        key = (descriptor.toolset, descriptor.name)
        if key in self._tools:
            raise DeclarationError(f"The tool {key[1]} of toolset {key[0]} is declared twice.")
        self._tools[key] = ToolEndpoint(descriptor, handler)

    def remove_tool(self, toolset: str, name: str) -> None:
        """Stop offering a tool; `Serving.refresh` announces it."""
        self._tools.pop((toolset, name), None)

    def offer(
        self,
        toolset: str,
        *,
        prompts: Iterable[PromptDescriptor] = (),
        resources: Iterable[ResourceDescriptor] = (),
        templates: Iterable[ResourceTemplate] = (),
        source: ContentSource | None = None,
    ) -> None:
        """Offer prompts and resources that are known only at run time, read or filled in by
        `source`, in the place of those that the toolset had; `Serving.refresh` announces it."""
        # New tables: a thread may be reading the catalogue.
        self._prompts = _without(self._prompts, toolset) | {(toolset, p.name): p for p in prompts}
        self._resources = _without(self._resources, toolset) | {r.uri: r for r in resources}
        self._templates = _without(self._templates, toolset) | {
            t.uri_template: t for t in templates
        }
        for kind in [kind for kind in self.content_endpoints if kind[1] == toolset]:
            del self.content_endpoints[kind]
        if source is not None:
            read = Endpoint(ResourceReadRequest, source.read, ResourceReadReply)
            get = Endpoint(PromptGetRequest, source.get_prompt, PromptGetReply)
            complete = Endpoint(CompleteRequest, source.complete, CompleteReply)
            self.content_endpoints |= {
                ("resource", toolset, "read"): read,
                ("resource", toolset, "complete"): complete,
                ("prompt", toolset, "get"): get,
                ("prompt", toolset, "complete"): complete,
            }

    def find_tool(self, toolset: str, name: str) -> ToolEndpoint | None:
        """The tool of that name; None where the worker does not offer it."""
        return self._tools.get((toolset, name))

    @property
    def catalog(self) -> Catalog:
        """Everything offered to clients, sorted: equal offers have equal hashes. Thread-safe."""
        tools = self._tools.copy()
        prompts, resources, templates = self._prompts, self._resources, self._templates
        return Catalog(
            service=self.service,
            tools=tuple(tools[key].descriptor for key in sorted(tools)),
            prompts=tuple(prompts[key] for key in sorted(prompts)),
            resources=tuple(resources[key] for key in sorted(resources)),
            resource_templates=tuple(templates[key] for key in sorted(templates)),
        )

    def _add_endpoint(self, part: object, name: str, required_roles: tuple[str, ...]) -> None:
        verb, request_type, reply_type = endpoint_types(type(part), name, self.service)
        if verb in self.endpoints:
            raise DeclarationError(f"The endpoint {self.service}.{verb} is declared twice.")
        self.endpoints[verb] = Endpoint(
            request_type, getattr(part, name), reply_type, required_roles
        )

    def _add_resources(self, part: Toolset) -> None:
        declared = list(declarations(type(part)))
        kinds = {declaration.kind for _, declaration in declared}
        verbs: dict[str, Endpoint] = {}
        fixed: dict[str, _Read] = {}
        families: list[tuple[UriTemplate, _Read]] = []
        for name, declaration in declared:
            method = getattr(part, name)
            if declaration.kind == "resource_list":
                verbs["list"] = Endpoint(ResourceListRequest, method, ResourceListReply)
            elif declaration.kind == "resource_search":
                verbs["search"] = Endpoint(ResourceSearchRequest, method, ResourceSearchReply)
            elif declaration.kind == "resource":
                resource = ResourceDescriptor(**described(type(part), name, declaration))
                self._resources[resource.uri] = resource
                fixed.setdefault(resource.uri, method)
            elif declaration.kind == "template":
                template = ResourceTemplate(
                    **described(type(part), name, declaration),
                    lists="resource_list" in kinds,
                    searches="resource_search" in kinds,
                )
                self._templates[template.uri_template] = template
                families.append((UriTemplate(template.uri_template), method))
        if fixed or families:
            verbs["read"] = Endpoint(
                ResourceReadRequest, _reading(fixed, families), ResourceReadReply
            )
            for verb, endpoint in verbs.items():
                self.content_endpoints["resource", part.toolset, verb] = endpoint


def _without(table: dict[K, V], toolset: str) -> dict[K, V]:
    """The items of other toolsets."""
    return {key: item for key, item in table.items() if item.toolset != toolset}


def _decoding(
    method: Callable[[Call, Any], Awaitable[Any]], arguments: type[Struct], form: ReplyForm
) -> ToolHandler:
    """A handler that decodes the arguments, calls the method and shapes its reply."""

    async def handle(call: Call, request: ToolCall) -> ToolReply:
        given = decode(bytes(request.arguments), arguments)
        with counting(call):
            reply = form.reply(await method(call, given))
        return replace(reply, credits=call.credits) if call.credits else reply

    return handle


def _reading(fixed: Mapping[str, _Read], families: Sequence[tuple[UriTemplate, _Read]]) -> _Read:
    """Reads a resource by the method of its URI, or by the first whose template matches it."""

    async def read(call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        method = fixed.get(request.uri) or next(
            (method for template, method in families if template.matches(request.uri)), None
        )
        if method is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "There is no such resource. Take a URI from the list of resources.",
            )
        return await method(call, request)

    return read

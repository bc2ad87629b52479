"""Toolsets: a class whose decorated methods are the tools, prompts and resources it offers.

The method's name is the tool's name and its docstring the description that a model reads. The
annotations give the JSON Schemas of arguments and reply, the check of the arguments, and the form
of the reply. Typed requests between services are methods too, marked with `endpoint`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar, Unpack, overload

import msgspec
from msgspec import Struct

from searchbus_contracts import (
    Actor,
    Fault,
    PromptMessage,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
    ToolDescriptor,
    ToolEvent,
)
from searchbus_contracts.errors import MAX_CREDITS
from searchbus_contracts.tools import ToolOptions

from ..client.request import Deadline

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One request as its handler sees it.

    Args:
        req_id: the id of the request, the same at every service that works on it.
        actor: on whose behalf the request was sent.
        relay: passes on an event of another worker that does the work.
        instance_only: whether the sender wants this very instance: the request must not be passed
            on to another one.
        input_responses: the client's responses, for a tool that asked for input (`InputRequired`).
        state: the state that the tool sent with its `InputRequired`.
        client_capabilities: MCP capabilities that the client declared.
        credits: what the call cost so far; see `spend`.
    """

    req_id: str
    service: str
    subject: str
    actor: Actor
    deadline: Deadline
    relay: Callable[[ToolEvent], Awaitable[None]]
    instance_only: bool = False
    input_responses: dict[str, Any] | None = None
    state: str | None = None
    client_capabilities: tuple[str, ...] = ()
    credits: float = 0.0

    @property
    def remaining_s(self) -> float:
        """Seconds until the caller's deadline; the handler is cancelled then."""
        return max(0.0, self.deadline.remaining_s)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress to the caller; `progress` must increase with every call."""
        await self.relay(
            ToolEvent(kind="progress", progress=progress, total=total, message=message)
        )

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a line to the client's log; `level` is one of syslog's eight, in lower case."""
        event = {"kind": "log", "level": level, "data": data, "logger": logger}
        await self.relay(msgspec.convert(event, ToolEvent))


_at_hand: ContextVar[Call | None] = ContextVar("call", default=None)


def spend(credits: float) -> None:
    """Count what a paid provider takes for the call at hand, also where others wait for it too."""
    call = _at_hand.get()
    if call is not None:
        call.credits = min(call.credits + credits, MAX_CREDITS)


@contextmanager
def counting(call: Call) -> Iterator[None]:
    """Count for this call what is spent in the block; a Fault that leaves it has the sum."""
    token = _at_hand.set(call)
    try:
        yield
    except Fault as fault:
        fault.failure = msgspec.structs.replace(fault.failure, credits=call.credits)
        raise
    finally:
        _at_hand.reset(token)


_ATTRIBUTE = "__searchbus_declarations__"


@dataclass(frozen=True, slots=True)
class WithMeta(Generic[T]):
    """A reply with metadata for the host, which the model does not read (`_meta` of the result)."""

    value: T
    meta: dict[str, Any] | None = None


ToolResult = Struct | list[Any] | str | WithMeta[Any]
ToolMethod = TypeVar("ToolMethod", bound=Callable[[Any, Call, Any], Awaitable[ToolResult]])
PromptMethod = TypeVar("PromptMethod", bound=Callable[..., str | tuple[PromptMessage, ...]])
EndpointMethod = TypeVar("EndpointMethod", bound=Callable[[Any, Call, Any], Awaitable[Struct]])
ReadMethod = TypeVar(
    "ReadMethod", bound=Callable[[Any, Call, ResourceReadRequest], Awaitable[ResourceReadReply]]
)
ListMethod = TypeVar(
    "ListMethod", bound=Callable[[Any, Call, ResourceListRequest], Awaitable[ResourceListReply]]
)
SearchMethod = TypeVar(
    "SearchMethod",
    bound=Callable[[Any, Call, ResourceSearchRequest], Awaitable[ResourceSearchReply]],
)
Kind = Literal[
    "tool", "prompt", "endpoint", "resource", "template", "resource_list", "resource_search"
]


class DeclarationError(TypeError):
    """A decorated method cannot be offered; the message names the method and the remedy."""


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """The kind and the options that a decorator recorded on a method; equal to itself only."""

    kind: Kind
    options: dict[str, Any] = field(default_factory=dict)


def tool(*, title: str, **options: Unpack[ToolOptions]) -> Callable[[ToolMethod], ToolMethod]:
    """Offer a method `async def name(self, call, arguments: Struct) -> reply` as a tool.

    The reply's annotation decides what a client receives: a Struct is structured JSON, a list of
    Structs is ``{"results": [...]}``, a str is one text, a `ToolReply` is passed on unchanged, and
    `WithMeta[...]` around the first two adds metadata for the host.

    Args:
        title: for people.
        options: fields of `ToolDescriptor`, which describes them; each has a default.
    """
    return _declare("tool", title=title, **options)


def prompt(
    *, title: str, required_roles: tuple[str, ...] = (), keywords: tuple[str, ...] = ()
) -> Callable[[PromptMethod], PromptMethod]:
    """Offer a method `def name(self, argument: str, …) -> str` as a prompt.

    The method runs once, with the placeholder ``{argument}`` for each argument; the edge replaces
    the placeholders. It may also return a tuple of `PromptMessage`. A parameter's `Meta` describes
    it, a `Literal` lists its values, and one with the default None or "" is optional.
    """
    return _declare("prompt", title=title, required_roles=required_roles, keywords=keywords)


@overload
def endpoint(method: EndpointMethod) -> EndpointMethod: ...


@overload
def endpoint(
    *, required_roles: tuple[str, ...] = ()
) -> Callable[[EndpointMethod], EndpointMethod]: ...


def endpoint(method: EndpointMethod | None = None, *, required_roles: tuple[str, ...] = ()) -> Any:
    """Handle a typed request on `<prefix>.v1.<service>.<verb>`, for actors with the roles.

    The verb is the method's name; `list_` gives the verb "list".
    """
    declare = _declare("endpoint", required_roles=required_roles)
    return declare if method is None else declare(method)


class ResourceOptions(TypedDict, total=False):
    """What a resource or a template may have besides its URI: by default the method's name."""

    name: str
    title: str
    mime_type: str
    required_roles: tuple[str, ...]
    untrusted: bool


def resource(uri: str, **options: Unpack[ResourceOptions]) -> Callable[[ReadMethod], ReadMethod]:
    """Offer a resource with a fixed URI, read by the method."""
    return _declare("resource", uri=uri, **options)


def resource_template(
    uri_template: str, **options: Unpack[ResourceOptions]
) -> Callable[[ReadMethod], ReadMethod]:
    """Offer a family of resources (RFC 6570 level 1), read by the method."""
    return _declare("template", uri_template=uri_template, **options)


def resource_list(method: ListMethod) -> ListMethod:
    """Return a page of the resources of the templates, for `resource.<toolset>.list`."""
    return _mark(method, Declaration("resource_list"))


def resource_search(method: SearchMethod) -> SearchMethod:
    """Find resources by their content, for `resource.<toolset>.search`."""
    return _mark(method, Declaration("resource_search"))


class Toolset:
    """Base class of toolsets; the class argument `name` is the toolset's name on the wire."""

    toolset: ClassVar[str] = ""

    def __init_subclass__(cls, *, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if name is not None:
            cls.toolset = name

    def configure(self, descriptor: ToolDescriptor) -> ToolDescriptor:
        """Adapt a tool to this deployment, for instance mark it as costly."""
        return descriptor


def declarations(part: type) -> Iterator[tuple[str, Declaration]]:
    """(attribute name, declaration) of every decorated method of a class, sorted by name."""
    for name in sorted(dir(part)):
        for declaration in getattr(getattr(part, name, None), _ATTRIBUTE, ()):
            yield name, declaration


def _declare(kind: Kind, **options: Any) -> Callable[[Any], Any]:
    return lambda method: _mark(method, Declaration(kind, options))


def _mark(method: T, declaration: Declaration) -> T:
    setattr(method, _ATTRIBUTE, (*getattr(method, _ATTRIBUTE, ()), declaration))
    return method

"""A server's prompts, resources and resource templates as descriptors of the bus.

One that is malformed is left out with a reason; the others of its server stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from searchbus_contracts import (
    Fault,
    PromptArgument,
    PromptDescriptor,
    ResourceDescriptor,
    ResourceTemplate,
    decode,
    encode,
)

from ..declare.servers import Server
from ..upstream.session import ListedContents
from .addresses import wrapped_uri
from .names import qualified_name, token_name
from .text import clean, clean_line

__all__ = ["MAX_ITEMS", "ServerContents", "content_annotations", "describe_contents"]

MAX_ITEMS = 2_000
"""Prompts, resources and templates of one server, of each kind."""
MAX_BYTES = 8 * 2**20
"""Of all of them together: the catalogue of the service, with all of its servers, is limited."""
_MAX_NAME_CHARS = 256
_MAX_TITLE_CHARS = 200
_MAX_DESCRIPTION_CHARS = 2_000
_MAX_ARGUMENTS = 100
_ROLES = ("user", "assistant")

Item = TypeVar("Item", bound=Struct)


class _ItemFault(ValueError):
    """An item that cannot be listed; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerContents:
    """The prompts and resources of one server.

    Args:
        own_names: name of a prompt on the bus → name at the server.
        required_roles: a caller needs all of these.
        refused: name at the server → why it is not listed.
    """

    prompts: tuple[PromptDescriptor, ...] = ()
    resources: tuple[ResourceDescriptor, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    own_names: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    required_roles: tuple[str, ...] = ()

    def shown(self, roles: tuple[str, ...], *, prompts: bool, resources: bool) -> ServerContents:
        """What an operator lets callers see of it.

        Args:
            roles: that callers need.
            prompts, resources: whether these are offered.
        """

        def kept(items: tuple[Item, ...], offered: bool) -> tuple[Item, ...]:
            if not offered:
                return ()
            return tuple(msgspec.structs.replace(item, required_roles=roles) for item in items)

        return ServerContents(
            kept(self.prompts, prompts),
            kept(self.resources, resources),
            kept(self.templates, resources),
            self.own_names if prompts else {},
            self.refused,
            roles,
        )


def describe_contents(
    server: Server, listed: ListedContents, is_late: Callable[[], bool] = lambda: False
) -> ServerContents:
    """The descriptors of what a server lists, as parsed JSON.

    Thousands take seconds: it awaits nothing, so that it can run in a thread.

    Args:
        is_late: whether nobody needs the answer any more.

    Raises:
        TimeoutError: it is late.
    """
    budget = _Budget(is_late)
    refused: dict[str, str] = {}
    own_names: dict[str, str] = {}

    def prompt(item: Mapping[str, Any]) -> PromptDescriptor:
        found = _prompt(server, item, completes=listed.completes)
        own_names.setdefault(found.name, str(item["name"]))
        return found

    def template(item: Mapping[str, Any]) -> ResourceTemplate:
        return _template(server, item, completes=listed.completes)

    prompts = _each("prompt", listed.prompts, prompt, lambda p: p.name, refused, budget)
    resources = _each(
        "resource",
        listed.resources,
        lambda r: _resource(server, r),
        lambda r: r.uri,
        refused,
        budget,
    )
    templates = _each(
        "resource template", listed.templates, template, lambda t: t.uri_template, refused, budget
    )
    if listed.resources is not None:
        # A server may have resources that it does not list, and name them in results.
        any_uri = wrapped_uri(server.name, "{+uri}")
        unlisted = ResourceTemplate(
            uri_template=any_uri, name="any", toolset=server.name, listed=False, untrusted=True
        )
        templates = (*(t for t in templates if t.uri_template != any_uri), unlisted)
    return ServerContents(prompts, resources, templates, own_names, refused)


def content_annotations(found: Any) -> dict[str, Any] | None:
    """Those of MCP's hints about content that are valid."""
    if not isinstance(found, dict):
        return None
    kept: dict[str, Any] = {}
    audience, priority = found.get("audience"), found.get("priority")
    if isinstance(audience, list):
        kept["audience"] = [role for role in audience if role in _ROLES]
    if isinstance(priority, int | float) and not isinstance(priority, bool) and 0 <= priority <= 1:
        kept["priority"] = priority
    if isinstance(found.get("lastModified"), str):
        kept["lastModified"] = clean_line(found["lastModified"], 64)
    return kept or None


@dataclass(slots=True)
class _Budget:
    """What is left of the limits of one server."""

    is_late: Callable[[], bool]
    left_bytes: int = MAX_BYTES


def _each(
    kind: str,
    items: Sequence[Any] | None,
    describe: Callable[[Mapping[str, Any]], Item],
    key: Callable[[Item], str],
    refused: dict[str, str],
    budget: _Budget,
) -> tuple[Item, ...]:
    found: dict[str, Item] = {}
    items, too_large = items or (), 0
    for number, item in enumerate(items):
        if budget.is_late():
            raise TimeoutError
        if len(found) == MAX_ITEMS:
            beyond = len(items) - number
            refused[f"{kind} beyond {MAX_ITEMS}"] = (
                f"there are {beyond} more than a server may have"
            )
            break
        name = item.get("name") if isinstance(item, dict) else None
        shown = clean_line(name, 80) if isinstance(name, str) else ""
        shown = f"{kind} {shown or number + 1}"
        try:
            if not isinstance(item, dict):
                raise _ItemFault("it is not an object")
            descriptor = describe(item)
            # Constructors do not check limits, decoding does.
            definition = encode(descriptor)
            descriptor = decode(definition, type(descriptor))
        except (Fault, ValueError) as error:
            reason = error.failure.message if isinstance(error, Fault) else str(error)
            refused[shown] = clean_line(reason, 300)
            continue
        if key(descriptor) in found:
            refused[shown] = f"another {kind} has its name or address"
        elif len(definition) > budget.left_bytes:
            too_large += 1
        else:
            budget.left_bytes -= len(definition)
            found[key(descriptor)] = descriptor
    if too_large:
        refused[f"{kind} beyond {MAX_BYTES // 2**20} MiB"] = (
            f"there are {too_large} that exceed the limit of all together"
        )
    return tuple(found.values())


def _prompt(server: Server, item: Mapping[str, Any], *, completes: bool) -> PromptDescriptor:
    own_name = item.get("name")
    if not isinstance(own_name, str) or not own_name or len(own_name) > _MAX_NAME_CHARS:
        raise _ItemFault("it has no usable name")
    name = token_name(own_name)
    arguments = item.get("arguments") or []
    if not isinstance(arguments, list) or len(arguments) > _MAX_ARGUMENTS:
        raise _ItemFault(f"its arguments are not a list of at most {_MAX_ARGUMENTS}")
    return PromptDescriptor(
        name=name,
        toolset=server.name,
        qualified_name=qualified_name(server.name, name),
        title=_line(item.get("title"), _MAX_TITLE_CHARS),
        description=_text(item.get("description")),
        arguments=tuple(map(_argument, arguments)),
        untrusted=True,
        completes=completes and bool(arguments),
    )


def _argument(found: Any) -> PromptArgument:
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise _ItemFault("one of its arguments has no name")
    return PromptArgument(
        name=found["name"],
        description=_text(found.get("description")),
        required=found.get("required") is True,
    )


def _resource(server: Server, item: Mapping[str, Any]) -> ResourceDescriptor:
    uri = _uri(item.get("uri"))
    size = item.get("size")
    return ResourceDescriptor(
        uri=wrapped_uri(server.name, uri),
        name=_line(item.get("name"), _MAX_NAME_CHARS) or uri[:_MAX_NAME_CHARS],
        toolset=server.name,
        title=_line(item.get("title"), _MAX_TITLE_CHARS),
        description=_text(item.get("description")),
        mime_type=_line(item.get("mimeType"), 200),
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) else None,
        untrusted=True,
        annotations=content_annotations(item.get("annotations")),
    )


def _template(server: Server, item: Mapping[str, Any], *, completes: bool) -> ResourceTemplate:
    uri_template = _uri(item.get("uriTemplate"))
    return ResourceTemplate(
        uri_template=wrapped_uri(server.name, uri_template),
        name=_line(item.get("name"), _MAX_NAME_CHARS) or uri_template[:_MAX_NAME_CHARS],
        toolset=server.name,
        title=_line(item.get("title"), _MAX_TITLE_CHARS),
        description=_text(item.get("description")),
        mime_type=_line(item.get("mimeType"), 200),
        untrusted=True,
        completes=completes,
        annotations=content_annotations(item.get("annotations")),
    )


def _uri(found: Any) -> str:
    if not isinstance(found, str) or not found or clean_line(found, len(found)) != found:
        raise _ItemFault("it has no usable URI")
    if " " in found:
        raise _ItemFault("its URI has a space")
    return found


def _line(found: Any, max_chars: int) -> str | None:
    return clean_line(found, max_chars) or None if isinstance(found, str) else None


def _text(found: Any) -> str | None:
    return clean(found, _MAX_DESCRIPTION_CHARS) or None if isinstance(found, str) else None

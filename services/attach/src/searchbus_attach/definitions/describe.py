"""A server's tools, prompts and resources as descriptors of the bus, or why they cannot be some.

One that is malformed is left out with a reason; the others of its server stay.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    ToolAnnotations,
    ToolDescriptor,
    convert,
    decode,
    encode,
)
from searchbus_contracts.codec import canonical

from ..declare.servers import Server
from .extensions import resource_meta, skill_resource, tool_meta, with_skills
from .schemas import SchemaError, modern_schema
from .text import VIEWS, clean, clean_line, qualified_name, token_name, usable_uri, wrapped_uri

MAX_TOOLS = 10_000
"""Tools of one server."""
_MAX_BYTES = 16 * 2**20
"""All tools of a server; the catalogue of the service, with all servers, may have 64 MiB."""
_MAX_TOOL_BYTES = 256 * 1024
MAX_ITEMS = 2_000
"""Prompts, resources and templates of one server, of each kind."""
MAX_BYTES = 8 * 2**20
"""All of them together."""
_MAX_NAME_CHARS = 256
_MAX_TITLE_CHARS = 200
_MAX_DESCRIPTION_CHARS = 8_000
"""The limit for a tool."""
_MAX_CONTENT_DESCRIPTION_CHARS = 2_000
_MAX_ARGUMENTS = 100
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ROLES = ("user", "assistant")

Item = TypeVar("Item", bound=Struct)


class _ItemError(ValueError):
    """An item that cannot be listed; the message says why."""


@dataclass(frozen=True, slots=True)
class ListedContents:
    """What a server lists besides tools, as parsed JSON; None of what it does not offer.
    `completes`: it suggests values of arguments."""

    prompts: list[Any] | None = None
    resources: list[Any] | None = None
    templates: list[Any] | None = None
    completes: bool = False
    skills: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The tools of one server.

    Args:
        descriptors: in the server's order.
        own_names: name on the bus → name at the server.
        refused: name at the server → why it is not listed.
        sha256: their hash: some that differ are equal for Python, such as 1 and True.
    """

    descriptors: tuple[ToolDescriptor, ...] = ()
    own_names: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""


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
        """What an operator lets callers, with these roles, see of it."""

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


def describe(
    server: Server, tools: Sequence[Any], is_late: Callable[[], bool] = lambda: False
) -> ServerTools:
    """The tools of a tools/list, as parsed JSON. Thousands take seconds: it awaits nothing, so that
    it can run in a thread, and raises TimeoutError once `is_late`."""
    found: dict[str, ToolDescriptor] = {}
    own_names: dict[str, str] = {}
    refused: dict[str, str] = {}
    size_bytes, digest = 0, hashlib.sha256()
    describe = functools.partial(_tool, server)
    for number, shown, tool in _named(tools, is_late):
        name = shown or f"(tool {number + 1})"
        try:
            descriptor, definition_bytes = _checked(describe, tool)
        except ValueError as error:
            refused[name] = clean_line(str(error), 300)
            continue
        if descriptor.name in found:
            refused[name] = "another tool has its name"
        elif definition_bytes > _MAX_TOOL_BYTES:
            refused[name] = f"it is larger than {_MAX_TOOL_BYTES // 1024} KiB"
        elif len(found) == MAX_TOOLS:
            refused[name] = f"a server may have {MAX_TOOLS:,} tools"
        elif size_bytes + definition_bytes > _MAX_BYTES:
            refused[name] = f"the tools of a server may have {_MAX_BYTES // 2**20} MiB together"
        else:
            size_bytes += definition_bytes
            digest.update(canonical(descriptor))
            found[descriptor.name] = descriptor
            own_names[descriptor.name] = tool["name"]
    return ServerTools(tuple(found.values()), own_names, refused, digest.hexdigest())


def names_of(_: Server, tools: Sequence[Any], is_late: Callable[[], bool]) -> ServerTools:
    """Only the `own_names` of `describe`, also of tools that cannot be listed."""
    own_names: dict[str, str] = {}
    for _number, _shown, tool in _named(tools, is_late):
        try:
            own_names.setdefault(_token_name(tool), tool["name"])
        except _ItemError:
            continue
    return ServerTools(own_names=own_names)


def describe_contents(
    server: Server, listed: ListedContents, is_late: Callable[[], bool] = lambda: False
) -> ServerContents:
    """The descriptors of what a server lists, as parsed JSON; arguments as for `describe`."""
    refused: dict[str, str] = {}
    own_names: dict[str, str] = {}
    left_bytes = MAX_BYTES

    def described(
        kind: str, items: Sequence[Any] | None, describe: Callable[[Any], Item], key: str
    ) -> tuple[Item, ...]:
        nonlocal left_bytes
        found: dict[str, Item] = {}
        items, too_large = items or (), 0
        for number, shown, item in _named(items, is_late):
            if len(found) == MAX_ITEMS:
                beyond = len(items) - number
                refused[f"{kind} beyond {MAX_ITEMS}"] = (
                    f"there are {beyond} more than a server may have"
                )
                break
            name = f"{kind} {shown or number + 1}"
            try:
                descriptor, definition_bytes = _checked(describe, item)
            except ValueError as error:
                refused[name] = clean_line(str(error), 300)
                continue
            if getattr(descriptor, key) in found:
                refused[name] = f"another {kind} has its name or address"
            elif definition_bytes > left_bytes:
                too_large += 1
            else:
                left_bytes -= definition_bytes
                found[getattr(descriptor, key)] = descriptor
                if isinstance(descriptor, PromptDescriptor):
                    own_names[descriptor.name] = item["name"]
        if too_large:
            refused[f"{kind} beyond {MAX_BYTES // 2**20} MiB"] = (
                f"there are {too_large} that exceed the limit of all together"
            )
        return tuple(found.values())

    completes = listed.completes
    prompts = described("prompt", listed.prompts, lambda p: _prompt(server, p, completes), "name")
    resources = described("resource", listed.resources, lambda r: _resource(server, r), "uri")
    templates = described(
        "resource template",
        listed.templates,
        lambda t: _template(server, t, completes),
        "uri_template",
    )
    skills = described("skill", listed.skills, lambda s: skill_resource(server.name, s), "uri")
    resources = with_skills(resources, skills)
    if listed.resources is not None:
        # A server may have resources that it does not list, and name them in results.
        unlisted = [
            ResourceTemplate(
                uri_template=wrapped_uri(server.name, any_uri), name="any", toolset=server.name,
                listed=False, untrusted=True,
            )
            for any_uri in ("{+uri}", f"{VIEWS}{{+uri}}")
        ]  # fmt: skip
        any_uris = {template.uri_template for template in unlisted}
        templates = (*(t for t in templates if t.uri_template not in any_uris), *unlisted)
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


def _named(items: Sequence[Any], is_late: Callable[[], bool]) -> Iterator[tuple[int, str, Any]]:
    """Items by number, each with its name as it is shown; raises TimeoutError when it is late."""
    for number, item in enumerate(items):
        if is_late():
            raise TimeoutError
        name = _dict(item).get("name") or _dict(item).get("uri")
        yield number, _line(name, 80) or "", item


def _checked(describe: Callable[[Any], Item], item: Any) -> tuple[Item, int]:
    """The descriptor of an item, and its size in bytes. Raises ValueError where it has none."""
    try:
        descriptor = describe(item)
        # Constructors do not check limits, decoding does.
        definition = encode(descriptor)
        return decode(definition, type(descriptor)), len(definition)
    except Fault as fault:
        raise ValueError(fault.failure.message) from None


def _tool(server: Server, tool: Any) -> ToolDescriptor:
    name = _token_name(tool)
    hints = _dict(tool.get("annotations"))
    try:
        input_schema = modern_schema(tool.get("inputSchema"))
    except SchemaError as fault:
        raise SchemaError(f"its input schema: {fault}") from None
    return ToolDescriptor(
        name=name,
        toolset=server.name,
        qualified_name=qualified_name(server.name, name),
        title=_line(tool.get("title"), _MAX_TITLE_CHARS)
        or _line(hints.get("title"), _MAX_TITLE_CHARS),
        description=_text(tool.get("description"), _MAX_DESCRIPTION_CHARS)
        or f"The tool {name} of {server.name}.",
        input_schema=input_schema,
        output_schema=_output_schema(tool.get("outputSchema")),
        annotations=_annotations(hints),
        timeout_ms=int(server.call_timeout_s * 1000),
        untrusted=True,
        meta=tool_meta(server.name, tool.get("_meta")),
    )


def _output_schema(schema: Any) -> dict[str, Any] | None:
    """None where it cannot be used: the tool works without it."""
    if schema is None:
        return None
    try:
        return modern_schema(schema)
    except SchemaError:
        return None


def _annotations(found: Mapping[str, Any]) -> ToolAnnotations | None:
    hints = {hint: found[hint] for hint in _HINTS if isinstance(found.get(hint), bool)}
    return convert(hints, ToolAnnotations) if hints else None


def _prompt(server: Server, item: Any, completes: bool) -> PromptDescriptor:
    name = _token_name(item)
    arguments = item.get("arguments") or []
    if not isinstance(arguments, list) or len(arguments) > _MAX_ARGUMENTS:
        raise _ItemError(f"its arguments are not a list of at most {_MAX_ARGUMENTS}")
    return PromptDescriptor(
        name=name,
        toolset=server.name,
        qualified_name=qualified_name(server.name, name),
        title=_line(item.get("title"), _MAX_TITLE_CHARS),
        description=_text(item.get("description"), _MAX_CONTENT_DESCRIPTION_CHARS),
        arguments=tuple(map(_argument, arguments)),
        untrusted=True,
        completes=completes and bool(arguments),
    )


def _argument(found: Any) -> PromptArgument:
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise _ItemError("one of its arguments has no name")
    return PromptArgument(
        name=found["name"],
        description=_text(found.get("description"), _MAX_CONTENT_DESCRIPTION_CHARS),
        required=found.get("required") is True,
    )


def _resource(server: Server, item: Any) -> ResourceDescriptor:
    uri, size = _uri(item, "uri"), _dict(item).get("size")
    return ResourceDescriptor(
        uri=wrapped_uri(server.name, uri),
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) else None,
        meta=resource_meta(uri, item.get("_meta")),
        **_content_fields(server, item, uri),
    )


def _template(server: Server, item: Any, completes: bool) -> ResourceTemplate:
    uri_template = _uri(item, "uriTemplate")
    return ResourceTemplate(
        uri_template=wrapped_uri(server.name, uri_template),
        completes=completes,
        **_content_fields(server, item, uri_template),
    )


def _content_fields(server: Server, item: Mapping[str, Any], uri: str) -> dict[str, Any]:
    """The fields that resources and templates share."""
    return {
        "name": _line(item.get("name"), _MAX_NAME_CHARS) or uri[:_MAX_NAME_CHARS],
        "toolset": server.name,
        "title": _line(item.get("title"), _MAX_TITLE_CHARS),
        "description": _text(item.get("description"), _MAX_CONTENT_DESCRIPTION_CHARS),
        "mime_type": _line(item.get("mimeType"), 200),
        "untrusted": True,
        "annotations": content_annotations(item.get("annotations")),
    }


def _token_name(item: Any) -> str:
    """The name on the bus of an item; raises ValueError where it has none."""
    own_name = _dict(item).get("name")
    if not isinstance(own_name, str) or not own_name or len(own_name) > _MAX_NAME_CHARS:
        raise _ItemError("it has no usable name")
    return token_name(own_name)


def _uri(item: Any, key: str) -> str:
    found = _dict(item).get(key)
    if not usable_uri(found):
        raise _ItemError("it has no usable URI, or one with a space")
    return found


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _line(found: Any, max_chars: int) -> str | None:
    return clean_line(found, max_chars) or None if isinstance(found, str) else None


def _text(found: Any, max_chars: int) -> str | None:
    return clean(found, max_chars) or None if isinstance(found, str) else None

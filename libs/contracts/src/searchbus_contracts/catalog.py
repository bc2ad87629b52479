"""A worker's catalogue: its tools, prompts and resources, and the hash that names it (§8).

The hash travels in `$SRV.INFO` metadata and in `evt.catalog.<service>` events; a reader that
receives a new hash requests `catalog.<service>.<hash>` once; see catalog_decoding.py.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .codec import canonical
from .subjects import check_tokens
from .tools import Content, Name, ToolDescriptor

__all__ = [
    "ACKS_KEY",
    "CATALOG_KEY",
    "CONTRACT_KEY",
    "CONTRACT_VERSION",
    "Catalog",
    "CatalogEvent",
    "CatalogPart",
    "CatalogRequest",
    "PromptArgument",
    "PromptDescriptor",
    "PromptMessage",
    "ResourceDescriptor",
    "ResourceTemplate",
]

ACKS_KEY = "acks"
"""Key in the metadata of a worker that acknowledges requests and takes them at its instance."""
CATALOG_KEY = "catalog"
"""Key of the catalogue hash in a worker's `$SRV.INFO` metadata."""
CONTRACT_KEY = "searchbus"
"""Key of the wire's version in the metadata; marks a service as a searchbus service."""
CONTRACT_VERSION = "v1"
"""The wire's version (proto/README.md), in the metadata of workers and in each subject."""


class PromptArgument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a prompt."""

    name: Name
    description: str | None = None
    required: bool = False
    values: Annotated[tuple[str, ...], Meta(description="Suggested by completion/complete.")] = ()


class PromptMessage(Struct, frozen=True, kw_only=True):
    """One message; `{argument}` in its texts is replaced by the argument's value."""

    role: Literal["user", "assistant"]
    content: Content


class PromptDescriptor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt: the edge fills in the arguments of its messages without a request to the worker.

    One without messages is filled in by its worker (`prompt.<toolset>.get`).
    """

    name: Name
    toolset: Name
    messages: Annotated[tuple[PromptMessage, ...], Meta(max_length=50)] = ()
    qualified_name: Annotated[
        Name | None, Meta(description="Its name beside other toolsets' prompts; default: name.")
    ] = None
    title: str | None = None
    description: Annotated[str, Meta(max_length=8192)] | None = None
    arguments: tuple[PromptArgument, ...] = ()
    required_roles: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    untrusted: Annotated[
        bool, Meta(description="Others wrote it; the edge says so in its _meta.")
    ] = False
    completes: Annotated[
        bool, Meta(description="`prompt.<toolset>.complete` suggests values of its arguments.")
    ] = False

    def __post_init__(self) -> None:
        check_tokens(
            self.name,
            self.toolset,
            self.qualified_name or self.name,
            *(argument.name for argument in self.arguments),
        )


class ResourceDescriptor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource with a fixed URI; read by `resource.<toolset>.read`."""

    uri: Annotated[str, Meta(min_length=1, max_length=2048)]
    name: Annotated[str, Meta(min_length=1, max_length=256)]
    toolset: Name
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None
    required_roles: tuple[str, ...] = ()
    untrusted: Annotated[
        bool, Meta(description="Others wrote it; the edge says so in its _meta.")
    ] = False
    annotations: Annotated[
        dict[str, Any] | None, Meta(description="MCP's hints: audience, priority, lastModified.")
    ] = None


class ResourceTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A family of resources (RFC 6570): every `{name}` matches one path segment, and an expression
    with an operator, such as `{+name}`, whatever is there.
    """

    uri_template: Annotated[str, Meta(min_length=1, max_length=2048)]
    name: Annotated[str, Meta(min_length=1, max_length=256)]
    toolset: Name
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    required_roles: tuple[str, ...] = ()
    untrusted: Annotated[
        bool, Meta(description="Others wrote it; the edge says so in its _meta.")
    ] = False
    lists: Annotated[
        bool, Meta(description="`resource.<toolset>.list` returns pages of the family.")
    ] = False
    searches: Annotated[bool, Meta(description="`resource.<toolset>.search` finds by content.")] = (
        False
    )
    completes: Annotated[
        bool, Meta(description="`resource.<toolset>.complete` suggests values of its variables.")
    ] = False
    listed: Annotated[
        bool, Meta(description="Whether clients see it; others are for reading only.")
    ] = True
    annotations: Annotated[
        dict[str, Any] | None, Meta(description="MCP's hints: audience, priority, lastModified.")
    ] = None

    def __post_init__(self) -> None:
        if "}{" in self.uri_template:
            raise ValueError("uri_template has two variables without a character between them")


class CatalogPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a large catalogue; in the list of parts without its descriptors (§8.7)."""

    hash: Annotated[str, Meta(min_length=1, max_length=64)]
    tools: tuple[ToolDescriptor, ...] = ()
    prompts: tuple[PromptDescriptor, ...] = ()
    resources: tuple[ResourceDescriptor, ...] = ()
    resource_templates: tuple[ResourceTemplate, ...] = ()
    packed: Annotated[
        bytes, Meta(description="Instead of its descriptors, where the request asked for it.")
    ] = b""


class Catalog(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that one service offers to clients."""

    service: Name
    tools: tuple[ToolDescriptor, ...] = ()
    prompts: tuple[PromptDescriptor, ...] = ()
    resources: tuple[ResourceDescriptor, ...] = ()
    resource_templates: tuple[ResourceTemplate, ...] = ()
    parts: Annotated[
        tuple[CatalogPart, ...],
        Meta(description="Instead of all descriptors, where the request asked for parts."),
    ] = ()

    @property
    def digest(self) -> str:
        """32 hex digits over the canonical JSON; equal catalogues have equal digests."""
        return hashlib.sha256(canonical(self)).hexdigest()[:32]

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets of all descriptors, sorted."""
        items = (self.tools, self.prompts, self.resources, self.resource_templates)
        return tuple(sorted({item.toolset for kind in items for item in kind}))

    def tools_of(self, toolset: str) -> tuple[ToolDescriptor, ...]:
        """The tools of one toolset."""
        return tuple(tool for tool in self.tools if tool.toolset == toolset)


class CatalogRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests a catalogue at `catalog.<service>.<hash>`; the subject holds the hash."""

    parts: Annotated[
        Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=100_000)] | None,
        Meta(
            description="Hashes of the parts to send. Empty: list the parts, or send the whole if "
            "it is small. Absent: send the whole."
        ),
    ] = None
    packed: Annotated[
        bool, Meta(description="Send parts packed; with an empty `parts`, a small catalogue too.")
    ] = False


class CatalogEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Published on `evt.catalog.<service>` when a worker starts, stops or changes its tools."""

    event: Literal["up", "changed", "down"]
    service: Name
    instance: Annotated[str, Meta(min_length=1, max_length=128)]
    catalog: Annotated[str, Meta(description="The catalogue's hash; empty without a catalogue.")]
    metadata: Annotated[
        dict[str, str], Meta(description="The worker's metadata, as in its $SRV.INFO replies.")
    ] = {}

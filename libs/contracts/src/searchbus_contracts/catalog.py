"""A worker's catalogue: its tools, prompts and resources, and the hash that names it (§8).

The hash travels in `$SRV.INFO` metadata and in `evt.catalog.<service>` events; a reader that
receives a new hash requests `catalog.<service>.<hash>` once. A part of a large catalogue may be
packed (§8.7): lines of UTF-8 under zlib, its kind ("tools", "prompts", …), then one descriptor a
line. The hash of a part is the hash of these lines, so that a reader can check what it got.

A reader leaves out a malformed descriptor, or a packed part that does not fit its hash, and keeps
the others.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from .codec import canonical, decode, doc
from .errors import ErrorCode, Fault
from .subjects import check_tokens
from .tools import Annotations, Content, Name, ToolDescriptor

ACKS_KEY = "acks"
"""Key in the metadata of a worker that acknowledges requests and takes them at its instance."""
CATALOG_KEY = "catalog"
"""Key of the catalogue hash in a worker's `$SRV.INFO` metadata."""
CONTRACT_KEY = "searchbus"
"""Key of the wire's version in the metadata; marks a service as a searchbus service."""
CONTRACT_VERSION = "v1"
"""The wire's version (proto/README.md), in the metadata of workers and in each subject."""
MAX_EXPRESSIONS = 16
MAX_TEXT_BETWEEN = 128
"""Expressions of a URI template, and characters between two of them."""
EXPRESSION = re.compile(r"\{([^{}]*)\}")

_Untrusted = Annotated[bool, doc("Others wrote it; the edge says so in its _meta.")]


class PromptArgument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of a prompt."""

    name: Name
    description: str | None = None
    required: bool = False
    values: Annotated[tuple[str, ...], doc("Suggested by completion/complete.")] = ()


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
        Name | None, doc("Its name beside other toolsets' prompts; default: name.")
    ] = None
    title: str | None = None
    description: Annotated[str, Meta(max_length=8192)] | None = None
    arguments: tuple[PromptArgument, ...] = ()
    required_roles: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    untrusted: _Untrusted = False
    completes: Annotated[
        bool, doc("`prompt.<toolset>.complete` suggests values of its arguments.")
    ] = False

    def __post_init__(self) -> None:
        check_tokens(
            self.name,
            self.toolset,
            self.qualified_name or self.name,
            *(argument.name for argument in self.arguments),
        )


class SkillFile(Struct, frozen=True, kw_only=True):
    """A file of a skill, with the digest and the size of its bytes (SEP-2640, SkillResource)."""

    uri: Annotated[str, Meta(min_length=1, max_length=2048)]
    digest: Annotated[str, doc("SHA-256 of its bytes.", pattern="^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, doc("In bytes.", ge=0)]


class SkillDescriptor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A skill whose SKILL.md is the resource that it belongs to (SEP-2640)."""

    frontmatter: Annotated[dict[str, Any], doc("That of its SKILL.md: name, description, …")]
    files: Annotated[
        tuple[SkillFile, ...], doc("All files; none where they are made anew at each read.")
    ] = ()


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
    untrusted: _Untrusted = False
    annotations: Annotations = None
    skill: SkillDescriptor | None = None
    meta: Annotated[dict[str, Any] | None, doc("Copied into its _meta by the edge.")] = None


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
    untrusted: _Untrusted = False
    lists: Annotated[bool, doc("`resource.<toolset>.list` returns pages of the family.")] = False
    searches: Annotated[bool, doc("`resource.<toolset>.search` finds by content.")] = False
    completes: Annotated[
        bool, doc("`resource.<toolset>.complete` suggests values of its variables.")
    ] = False
    listed: Annotated[bool, doc("Whether clients see it; others are for reading only.")] = True
    annotations: Annotations = None

    def __post_init__(self) -> None:
        if "}{" in self.uri_template:
            raise ValueError("uri_template has two variables without a character between them")
        texts = EXPRESSION.split(self.uri_template)[::2]
        if len(texts) - 1 > MAX_EXPRESSIONS:
            raise ValueError(f"uri_template has over {MAX_EXPRESSIONS} variables")
        # One that repeats itself is compared with the URI at each of its characters.
        if any(len(text) > MAX_TEXT_BETWEEN for text in texts[1:-1]):
            raise ValueError(
                f"uri_template has over {MAX_TEXT_BETWEEN} characters between two variables"
            )


class CatalogPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a large catalogue; in the list of parts without its descriptors (§8.7)."""

    hash: Annotated[str, Meta(min_length=1, max_length=64)]
    tools: tuple[ToolDescriptor, ...] = ()
    prompts: tuple[PromptDescriptor, ...] = ()
    resources: tuple[ResourceDescriptor, ...] = ()
    resource_templates: tuple[ResourceTemplate, ...] = ()
    packed: Annotated[bytes, doc("Instead of its descriptors, where the request asked for it.")] = (
        b""
    )


class Catalog(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that one service offers to clients."""

    service: Name
    tools: tuple[ToolDescriptor, ...] = ()
    prompts: tuple[PromptDescriptor, ...] = ()
    resources: tuple[ResourceDescriptor, ...] = ()
    resource_templates: tuple[ResourceTemplate, ...] = ()
    parts: Annotated[
        tuple[CatalogPart, ...],
        doc("Instead of all descriptors, where the request asked for parts."),
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
        doc(
            "Hashes of the parts to send. Empty: list the parts, or send the whole if "
            "it is small. Absent: send the whole."
        ),
    ] = None
    packed: Annotated[
        bool, doc("Send parts packed; with an empty `parts`, a small catalogue too.")
    ] = False


class CatalogEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Published on `evt.catalog.<service>` when a worker starts, stops or changes its tools."""

    event: Literal["up", "changed", "down"]
    service: Name
    instance: Annotated[str, Meta(min_length=1, max_length=128)]
    catalog: Annotated[str, doc("The catalogue's hash; empty without a catalogue.")]
    metadata: Annotated[
        dict[str, str], doc("The worker's metadata, as in its $SRV.INFO replies.")
    ] = {}


_DESCRIPTORS: dict[str, Any] = {
    "tools": ToolDescriptor,
    "prompts": PromptDescriptor,
    "resources": ResourceDescriptor,
    "resource_templates": ResourceTemplate,
}
KINDS = tuple(_DESCRIPTORS)
"""Kinds of descriptors: the fields of a Catalog and of its parts."""


def part_hash(kind: str, descriptors: Sequence[bytes]) -> str:
    """The name of a part: 32 hex digits over its kind and the JSON of its descriptors."""
    return hashlib.sha256(b"".join((kind.encode(), *descriptors))).hexdigest()[:32]


def pack(kind: str, descriptors: Sequence[bytes]) -> bytes:
    """Compress a part of one of KINDS: descriptors as JSON without line breaks."""
    return zlib.compress(b"\n".join((kind.encode(), *descriptors)))


def unpack(packed: bytes, name: str, *, max_bytes: int) -> tuple[str, list[bytes]]:
    """The kind of a part with this hash, and its descriptors as JSON; no more than `max_bytes` is
    decompressed. Raises Fault(invalid_argument)."""
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(packed, max(1, max_bytes))
    except zlib.error:
        raise _unfit(name, "cannot be decompressed") from None
    if not decompressor.eof:
        # The text goes on behind the limit, or the data ends too early.
        whole = bool(decompressor.unconsumed_tail)
        raise _unfit(name, "is too large" if whole else "cannot be decompressed")
    kind, *descriptors = text.split(b"\n")
    known = kind.decode("utf-8", "replace")
    if part_hash(known, descriptors) != name:
        raise _unfit(name, "has another hash")
    if known not in KINDS:
        raise _unfit(name, "has an unknown kind")
    return known, descriptors


def _unfit(name: str, reason: str) -> Fault:
    return Fault(
        ErrorCode.INVALID_ARGUMENT, f"Part {name[:32]} of the catalogue {reason}. Send it again."
    )


_MAX_UNPACKED_BYTES = 64 * 1024 * 1024
"""Limit for all packed parts of one reply: as much as a reply without packed parts may have."""


class Refusal(Struct, frozen=True, kw_only=True):
    """A descriptor, or a part of a catalogue, that was left out, and the reason."""

    kind: str
    name: str
    reason: str


class _RawPart(Struct, kw_only=True):
    hash: str = ""
    tools: tuple[msgspec.Raw, ...] = ()
    prompts: tuple[msgspec.Raw, ...] = ()
    resources: tuple[msgspec.Raw, ...] = ()
    resource_templates: tuple[msgspec.Raw, ...] = ()
    packed: bytes = b""


class _RawCatalog(_RawPart, kw_only=True):
    service: Name
    parts: tuple[_RawPart, ...] = ()


RESERVED_TOOLSETS = {"bulk": "connector", "connector": "connector", "lazy": "connector"}
"""Toolsets that belong to one service whatever others offer: those of the edge itself."""


def decode_catalog(data: bytes) -> tuple[Catalog, list[Refusal]]:
    """Decode a catalogue without its malformed descriptors and parts, which are returned as
    refusals; raises Fault(invalid_argument) where it cannot be decoded as a whole."""
    raw = decode(data, _RawCatalog)
    refusals: list[Refusal] = []
    parts = tuple(
        CatalogPart(hash=part.hash, **_descriptors(part, raw.service, refusals))
        for part in _unpacked(raw.parts, refusals)
    )
    whole = _descriptors(raw, raw.service, refusals)
    return Catalog(service=raw.service, parts=parts, **whole), refusals


def _unpacked(parts: tuple[_RawPart, ...], refusals: list[Refusal]) -> Iterator[_RawPart]:
    """The parts with their descriptors; those that are refused are added to `refusals`."""
    left_bytes = _MAX_UNPACKED_BYTES
    for part in parts:
        if not part.packed:
            yield part
            continue
        try:
            kind, lines = unpack(part.packed, part.hash, max_bytes=left_bytes)
            left_bytes -= sum(map(len, lines))
            descriptors: dict[str, Any] = {kind: tuple(map(msgspec.Raw, lines))}
            yield _RawPart(hash=part.hash, **descriptors)
        except Fault as fault:
            reason = fault.failure.message
            refusals.append(Refusal(kind="part", name=part.hash[:32], reason=reason))


def _descriptors(raw: _RawPart, service: str, refusals: list[Refusal]) -> dict[str, Any]:
    """The descriptors of each kind; those that are refused are added to `refusals`."""
    found: dict[str, Any] = {}
    for kind, target in _DESCRIPTORS.items():
        kept = []
        for item in getattr(raw, kind):
            try:
                kept.append(_descriptor(item, target, service))
            except Fault as fault:
                one = kind.removesuffix("s").replace("_", " ")
                reason = fault.failure.message
                refusals.append(Refusal(kind=one, name=_name_of(item), reason=reason))
        found[kind] = tuple(kept)
    return found


def _descriptor(item: msgspec.Raw, target: Any, service: str) -> Any:
    found = decode(bytes(item), target)
    if RESERVED_TOOLSETS.get(found.toolset, service) != service:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"The toolset {found.toolset} is reserved. Use another name.",
        )
    return found


class _Named(Struct):
    name: str = "(unnamed)"


def _name_of(item: msgspec.Raw) -> str:
    try:
        return decode(bytes(item), _Named).name[:80]
    except Fault:
        return "(unreadable)"

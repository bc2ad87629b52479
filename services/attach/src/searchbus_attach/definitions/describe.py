"""A server's tool as a descriptor of the bus, or why it cannot be one.

One tool that is malformed is left out with a reason; the others of its server stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from searchbus_contracts import Fault, ToolAnnotations, ToolDescriptor, convert, decode, encode
from searchbus_contracts.codec import canonical

from ..declare.servers import Server
from .names import qualified_name, token_name
from .schemas import SchemaFault, modern_schema
from .text import clean, clean_line

__all__ = ["MAX_TOOLS", "ServerTools", "describe"]

MAX_TOOLS = 5_000
"""Of one server."""
_MAX_BYTES = 16 * 2**20
"""Of all of them: the catalogue of the service, with all of its servers, is limited to 64 MiB."""
_MAX_TOOL_BYTES = 256 * 1024
_MAX_NAME_CHARS = 256
_MAX_TITLE_CHARS = 200
_MAX_DESCRIPTION_CHARS = 8_000
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True)
class ServerTools:
    """The tools of one server.

    Args:
        descriptors: in the server's order.
        own_names: name on the bus → name at the server.
        refused: name at the server → why it is not listed.
        sha256: of the descriptors: some that differ are equal for Python, such as 1 and True.
    """

    descriptors: tuple[ToolDescriptor, ...] = ()
    own_names: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""


def describe(
    server: Server, tools: Sequence[Any], is_late: Callable[[], bool] = lambda: False
) -> ServerTools:
    """The tools of a tools/list, as parsed JSON.

    Thousands take seconds: it awaits nothing, so that it can run in a thread.

    Args:
        is_late: whether nobody needs the answer any more.

    Raises:
        TimeoutError: it is late.
    """
    descriptors: dict[str, ToolDescriptor] = {}
    own_names: dict[str, str] = {}
    refused: dict[str, str] = {}
    size_bytes, digest = 0, hashlib.sha256()
    for number, tool in enumerate(tools):
        if is_late():
            raise TimeoutError
        own_name = tool.get("name") if isinstance(tool, dict) else None
        shown = clean_line(own_name, 80) if isinstance(own_name, str) else ""
        shown = shown or f"(tool {number + 1})"
        try:
            definition = encode(_descriptor(server, tool, own_name))
            # Constructors do not check limits, decoding does.
            descriptor = decode(definition, ToolDescriptor)
        except (SchemaFault, Fault) as error:
            reason = error.failure.message if isinstance(error, Fault) else str(error)
            refused[shown] = clean_line(reason, 300)
            continue
        if descriptor.name in descriptors:
            refused[shown] = "another tool has its name"
        elif len(definition) > _MAX_TOOL_BYTES:
            refused[shown] = f"it is larger than {_MAX_TOOL_BYTES // 1024} KiB"
        elif len(descriptors) == MAX_TOOLS:
            refused[shown] = f"a server may have {MAX_TOOLS} tools"
        elif size_bytes + len(definition) > _MAX_BYTES:
            refused[shown] = f"the tools of a server may have {_MAX_BYTES // 2**20} MiB together"
        else:
            size_bytes += len(definition)
            digest.update(canonical(descriptor))
            descriptors[descriptor.name] = descriptor
            own_names[descriptor.name] = str(own_name)
    return ServerTools(tuple(descriptors.values()), own_names, refused, digest.hexdigest())


def _descriptor(server: Server, tool: Any, own_name: Any) -> ToolDescriptor:
    if not isinstance(own_name, str) or not own_name or len(own_name) > _MAX_NAME_CHARS:
        raise SchemaFault("it has no usable name")
    name = token_name(own_name)
    title = _text(tool.get("title")) or _text(_dict(tool.get("annotations")).get("title"))
    try:
        input_schema = modern_schema(tool.get("inputSchema"))
    except SchemaFault as fault:
        raise SchemaFault(f"its input schema: {fault}") from None
    return ToolDescriptor(
        name=name,
        toolset=server.name,
        qualified_name=qualified_name(server.name, name),
        title=clean_line(title, _MAX_TITLE_CHARS) or None,
        description=clean(_text(tool.get("description")), _MAX_DESCRIPTION_CHARS)
        or f"The tool {name} of {server.name}.",
        input_schema=input_schema,
        output_schema=_output_schema(tool.get("outputSchema")),
        annotations=_annotations(_dict(tool.get("annotations"))),
        timeout_ms=int(server.call_timeout_s * 1000),
        untrusted=True,
    )


def _output_schema(schema: Any) -> dict[str, Any] | None:
    """None where it cannot be used: the tool works without it."""
    if schema is None:
        return None
    try:
        return modern_schema(schema)
    except SchemaFault:
        return None


def _annotations(found: Mapping[str, Any]) -> ToolAnnotations | None:
    hints = {hint: found[hint] for hint in _HINTS if isinstance(found.get(hint), bool)}
    return convert(hints, ToolAnnotations) if hints else None


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

"""The head of an HTTP request: the headers that an endpoint reads, and the rules of the transport.

Header values are stripped: httptools keeps trailing spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import Struct

from searchbus_contracts import Actor

Headers = tuple[tuple[bytes, bytes], ...]
_JSON = "application/json"
_JSON_TYPES = (_JSON, "application/*", "*/*")
_EVENT_TYPES = ("text/event-stream", "text/*", "*/*")
_MAX_KEPT_CHARS = 256


def is_modern(revision: str | None) -> bool:
    """Whether a revision has the client in `_meta` (2026-07-28); unknown ones count as modern."""
    return revision is not None and revision not in HANDSHAKE_PROTOCOL_VERSIONS


class Head(Struct):
    """The headers that an endpoint reads; empty where the request has none of that name.

    Args:
        revision: `MCP-Protocol-Version`; None where the header is missing.
        method, name: `Mcp-Method` and `Mcp-Name`.
        repeated: headers that occur more than once, of those that say who calls what.
        accepts_json, accepts_events: the forms of a response that the client takes.
        modern: of the revision, see `is_modern`.
        raw: all headers as the server delivered them.
    """

    raw: Sequence[tuple[bytes, bytes]]
    host: str = ""
    origin: str = ""
    content_type: str = ""
    content_encoding: str = ""
    content_length: str = ""
    accept: str = ""
    authorization: str = ""
    traceparent: str = ""
    tracestate: str = ""
    revision: str | None = None
    method: str | None = None
    name: str | None = None
    repeated: tuple[str, ...] = ()
    accepts_json: bool = False
    accepts_events: bool = False
    modern: bool = False

    def __post_init__(self) -> None:
        self.modern = is_modern(self.revision)


_FIELDS = {
    b"host": "host",
    b"origin": "origin",
    b"content-type": "content_type",
    b"content-encoding": "content_encoding",
    b"content-length": "content_length",
    b"accept": "accept",
    b"authorization": "authorization",
    b"traceparent": "traceparent",
    b"tracestate": "tracestate",
    MCP_PROTOCOL_VERSION_HEADER.encode(): "revision",
    MCP_METHOD_HEADER.encode(): "method",
    MCP_NAME_HEADER.encode(): "name",
}
_ONCE = frozenset({"authorization", "revision", "method", "name"})
_LISTS = frozenset({"accept", "content_encoding", "tracestate"})


def parse_head(headers: Sequence[tuple[bytes, bytes]]) -> Head:
    """Read the headers of an ASGI scope; of a repeated header the first value counts.
    Lines of a list are one list (RFC 9110, 5.3)."""
    fields: dict[str, str] = {}
    repeated: tuple[str, ...] = ()
    for name, value in headers:
        field = _FIELDS.get(name)
        if field is None:
            continue
        if field not in fields:
            fields[field] = value.strip().decode("latin-1")
        elif field in _ONCE:
            repeated = (*repeated, field)
        elif field in _LISTS:
            fields[field] += ", " + value.strip().decode("latin-1")
    types = media_types(fields.get("accept", ""))
    return Head(
        headers,
        repeated=repeated,
        accepts_json=not types.isdisjoint(_JSON_TYPES),
        accepts_events=not types.isdisjoint(_EVENT_TYPES),
        modern=False,
        **fields,
    )


class Received(Struct):
    """An admitted request, in `ctx.request` of MCP; `caller`: the identity, else the address."""

    head: Head
    actor: Actor
    caller: str = ""


def media_types(accept: str) -> frozenset[str]:
    """The types of an Accept header, or the names of another list, in lower case; parameters and
    weights are ignored."""
    # Most clients send the same header; a stranger's long ones would fill the memory.
    return (_types if len(accept) <= _MAX_KEPT_CHARS else _types.__wrapped__)(accept)


@lru_cache(maxsize=1024)
def _types(accept: str) -> frozenset[str]:
    parts = (part.partition(";")[0].strip().lower() for part in accept.split(","))
    return frozenset(part for part in parts if part)

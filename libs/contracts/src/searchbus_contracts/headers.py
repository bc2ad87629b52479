"""NATS headers, whose names are case-sensitive (proto/README.md §4), and control messages (§5)."""

from __future__ import annotations

import json
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from .codec import decode, doc, encode
from .errors import ErrorCode, Fault

REQ_ID: Final = "Req-Id"
TIMEOUT_MS: Final = "Timeout-Ms"
DEADLINE_MS: Final = "Deadline-Ms"
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
ACK_MS: Final = "Ack-Ms"
ACK: Final = "Ack"
INSTANCE_ONLY: Final = "Instance-Only"
ACTOR: Final = "Actor"
ACTOR_SIG: Final = "Actor-Sig"
ACTOR_KEY: Final = "Actor-Key"
ACTOR_GRANT: Final = "Actor-Grant"
CHUNK: Final = "Chunk"
CREDIT: Final = "Credit"
SIZE: Final = "Size"
PARTS: Final = "Parts"
EVENT: Final = "Event"
STARTED: Final = "Started"
ERROR_CODE: Final = "Nats-Service-Error-Code"
ERROR_TEXT: Final = "Nats-Service-Error"


MAX_ACTOR_CHARS: Final = 96 * 1024
"""A token of an edge has at most 12 KiB of claims; a character of one byte may become six here."""


def bare_role(role: str) -> str:
    """A role's name without one prefix `ROLE_`, which some identity providers add."""
    return role.removeprefix("ROLE_")


OPERATOR_ROLE: Final = "searchbus-operator"
"""The role of who changes documents, attached servers and what is about other callers."""


class Actor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """On whose behalf a request is sent; set by the edge, JSON in the `Actor` header."""

    subject: Annotated[str, doc("Stable id of the caller.")] = "anonymous"
    roles: Annotated[
        tuple[str, ...], doc("Role names, compared exactly; '*' stands for every role.")
    ] = ()
    endpoint: Annotated[
        str | None,
        doc("An endpoint that joins toolsets: a tool that calls others finds only those there."),
    ] = None

    def holds(self, required: tuple[str, ...] | list[str]) -> bool:
        """Whether the actor has all of the required roles."""
        return self.missing(required) is None

    def missing(self, required: tuple[str, ...] | list[str]) -> str | None:
        """The first required role that the actor lacks, as it was declared."""
        if not required or "*" in self.roles:
            return None
        held = {bare_role(role) for role in self.roles}
        return next((role for role in required if bare_role(role) not in held), None)

    def require(self, required: tuple[str, ...]) -> None:
        """Raise Fault(forbidden), which names a required role that the actor lacks."""
        if (role := self.missing(required)) is not None:
            raise Fault(
                ErrorCode.FORBIDDEN, f"The role {role} is needed. Ask an administrator for it."
            )

    def to_header(self) -> str:
        """Encode as ASCII JSON: NATS headers have no line breaks, and clients differ on UTF-8."""
        try:
            return encode(self).decode("ascii")
        except UnicodeError:
            return _to_ascii(msgspec.to_builtins(self))

    @classmethod
    def from_header(cls, value: str) -> Actor:
        """Decode the header; raises Fault(invalid_argument), also above `MAX_ACTOR_CHARS`."""
        if len(value) > MAX_ACTOR_CHARS:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"The header Actor is over {MAX_ACTOR_CHARS} characters. Give the caller fewer "
                "roles.",
            )
        return decode(value.encode("utf-8", "replace"), cls)


_to_ascii = json.JSONEncoder(separators=(",", ":")).encode


class Parts(Struct, frozen=True, kw_only=True):
    """The `Parts` header of a request too large for one message (§5): where to get its parts."""

    subject: Annotated[str, doc("Request a part here; the body is its number, from 0.")]
    count: Annotated[int, Meta(ge=1, le=4096)]
    size_bytes: Annotated[int, Meta(ge=1)]
    sha256: Annotated[str, Meta(min_length=64, max_length=64)]


class Cancel(Struct, frozen=True, kw_only=True):
    """Published on `ctl.cancel.<service>`: the caller no longer waits for this request."""

    req_id: Annotated[str, Meta(min_length=1, max_length=64)]


class Ping(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sent to `ctl.ping.<service>.<instance>` to check whether that instance still responds."""

    parts: Annotated[bool, doc("Whether the reply has `limit`, `waiting`, `shed`, `parts`.")] = (
        False
    )


class LivePart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a part of a process says of itself: an egress address, a key, a cache, a limit …"""

    kind: Annotated[str, doc("egress, key, breaker, upstream, cache, limit or client.")]
    name: str
    state: Annotated[str, doc("closed, open or suspected; empty: always in use.")] = ""
    until_ms: Annotated[int, doc("When the state ends, in milliseconds of the epoch.")] = 0
    numbers: Annotated[dict[str, float], doc("What it counts and measures, by name.")] = {}
    labels: Annotated[dict[str, str], doc("What else it says, by name; no secret.")] = {}


class Pong(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply to a ping."""

    instance: str
    in_flight: int
    limit: Annotated[int, doc("Requests that it handles at once; 0: not asked for.")] = 0
    waiting: Annotated[int, doc("Requests that wait for a slot.")] = 0
    version: Annotated[str, doc("The version of its package.")] = ""
    shed: Annotated[int, doc("Requests refused so far because it was at its limit.")] = 0
    parts: Annotated[tuple[LivePart, ...], doc("All parts of its process.")] = ()

"""Control messages: cancel a request, ping one instance (proto/README.md §5)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["Cancel", "Ping", "Pong"]


class Cancel(Struct, frozen=True, kw_only=True):
    """Published on `ctl.cancel.<service>`: the caller no longer waits for this request."""

    req_id: Annotated[str, Meta(min_length=1, max_length=64)]


class Ping(Struct, frozen=True, kw_only=True):
    """Sent to `ctl.ping.<service>.<instance>` to check whether that instance still responds."""


class Pong(Struct, frozen=True, kw_only=True):
    """The reply to a ping."""

    instance: str
    in_flight: int

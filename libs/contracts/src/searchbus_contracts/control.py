"""Control messages: cancel a request, ping one instance (proto/README.md §5)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["Cancel", "Ping", "Pong"]


class Cancel(Struct, frozen=True, kw_only=True):
    """Published on `ctl.cancel.<service>`: the answer to this request is no longer wanted."""

    req_id: Annotated[str, Meta(min_length=1, max_length=64)]


class Ping(Struct, frozen=True, kw_only=True):
    """Asks `ctl.ping.<instance>` whether that instance still answers."""


class Pong(Struct, frozen=True, kw_only=True):
    """The answer to a ping."""

    instance: str
    in_flight: int

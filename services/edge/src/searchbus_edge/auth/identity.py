"""Callers: who they are, and the refusal of a request without a valid credential."""

from __future__ import annotations

from msgspec import Struct

from searchbus_contracts import Actor

__all__ = ["ANONYMOUS", "Identity", "Unauthenticated"]

ANONYMOUS = Actor(subject="anonymous", roles=("*",))
"""The caller where there is no access control: the edge then listens on loopback only."""


class Unauthenticated(Exception):
    """No valid credential. The message is for the client and does not help to guess one.

    Args:
        code: `invalid_token`, or empty where the request had no credential (RFC 6750, 3.1).
    """

    def __init__(self, message: str, code: str = "invalid_token") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Identity(Struct, frozen=True):
    """A caller, and until when (seconds of the epoch) the credential need not be verified again."""

    actor: Actor
    expires_s: float

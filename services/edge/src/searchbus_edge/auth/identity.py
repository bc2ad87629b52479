"""What a credential says of its owner."""

from __future__ import annotations

from dataclasses import dataclass

from searchbus_contracts import Actor

__all__ = ["Identity", "Unauthenticated"]


class Unauthenticated(Exception):
    """No valid credential. The message is for the client: it says what is wrong, not how near.

    Args:
        code: `invalid_token`, or empty where there was none at all (RFC 6750, 3.1).
    """

    def __init__(self, message: str, code: str = "invalid_token") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller, and until when (seconds of the epoch) that is known."""

    actor: Actor
    expires_s: float

"""Opaque cursors: a position in a list, signed together with the list that it belongs to.

A cursor is `base64url(JSON . 16 bytes of signature)`. The signature covers the list, the query and
the caller, so that a cursor is valid in its own list only. All edges of a deployment share the key
(`STATE_KEY`). A cursor holds a position and never a right.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..signing import Signer, from_base64url, to_base64url

__all__ = ["UNKNOWN_CURSOR", "BadCursor", "Cursors"]

UNKNOWN_CURSOR = "Unknown cursor. Omit it to start from the first page."
_MAX_CHARS = 2048


class BadCursor(ValueError):
    """A cursor that was changed, or issued for another list."""


class Cursors:
    """Issues and reads cursors.

    Args:
        key: shared by all edges of a deployment.
    """

    def __init__(self, key: bytes) -> None:
        self._signer = Signer(key, "cursors")

    def issue(self, state: dict[str, Any], *bound_to: object) -> str:
        """A cursor that holds `state` (JSON) and is valid for equal `bound_to` only."""
        body = msgspec.json.encode(state)
        return to_base64url(body + self._signer.sign(body, *bound_to))

    def read(self, cursor: str, *bound_to: object) -> dict[str, Any]:
        """The state of a cursor; raises BadCursor."""
        if len(cursor) > _MAX_CHARS or not cursor.isascii():
            raise BadCursor("too long, or not ASCII")
        try:
            raw = from_base64url(cursor)
        except ValueError as error:
            raise BadCursor(str(error)) from None
        body, signature = raw[: -self._signer.size_bytes], raw[-self._signer.size_bytes :]
        if not self._signer.verify(signature, body, *bound_to):
            raise BadCursor("the signature does not match")
        state: dict[str, Any] = msgspec.json.decode(body)
        return state

"""Opaque cursors: what to go on with, sealed with what it belongs to.

A cursor is `base64url(JSON . 16 bytes of HMAC-SHA256)`. The seal covers the list, the query and the
caller, so that one cursor opens in its own place only. All edges of a deployment share the key
(`state_key`); without one the seal tells ours from made-up ones, which is all that a single edge
needs: a cursor holds positions, never rights.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import Any

__all__ = ["BadCursor", "Cursors"]

_SEAL_BYTES = 16
_MAX_CHARS = 2048


class BadCursor(ValueError):
    """A cursor that this list did not give."""


class Cursors:
    """Seals and opens cursors."""

    def __init__(self, key: bytes = b"searchbus") -> None:
        self._key = key

    def seal(self, state: dict[str, Any], *bound_to: object) -> str:
        """A cursor that holds `state` (JSON) and opens with equal `bound_to` only."""
        body = json.dumps(state, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(body + self._tag(body, bound_to)).decode().rstrip("=")

    def open(self, cursor: str, *bound_to: object) -> dict[str, Any]:
        """The state of a cursor.

        Raises:
            BadCursor: it was changed, or given for something else.
        """
        if len(cursor) > _MAX_CHARS or not cursor.isascii():
            raise BadCursor("too long, or not ASCII")
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise BadCursor("no base64") from None
        body, tag = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
        if not hmac.compare_digest(tag, self._tag(body, bound_to)):
            raise BadCursor("the seal does not fit")
        # Base64 has several spellings of its last character: only our own is ours.
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != cursor:
            raise BadCursor("not our spelling")
        state: dict[str, Any] = json.loads(body)
        return state

    def _tag(self, body: bytes, bound_to: tuple[object, ...]) -> bytes:
        context = json.dumps([str(part) for part in bound_to]).encode()
        seal = hmac.new(self._key, context + b"\0" + body, hashlib.sha256)
        return seal.digest()[:_SEAL_BYTES]

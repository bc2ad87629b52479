"""Signatures on what clients carry for the edge: cursors and ids of web pages.

HMAC-SHA256, cut to `size_bytes`. Each purpose has a key of its own, derived from the deployment's
key, so that a signature for one purpose is worthless for another. Base64 is read strictly: a token
has exactly one spelling. (itsdangerous accepts several spellings of a signature.)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

__all__ = ["Signer", "from_base64url", "to_base64url"]


class Signer:
    """Signs data for one purpose.

    Args:
        key: shared by all edges of a deployment (`STATE_KEY`).
        purpose: separates keys; part of every signature.
        size_bytes: of a signature, at most 32.
    """

    def __init__(self, key: bytes, purpose: str, *, size_bytes: int = 16) -> None:
        self._key = hashlib.sha256(f"searchbus/{purpose}/".encode() + key).digest()
        self.size_bytes = size_bytes

    def sign(self, data: bytes, *bound_to: object) -> bytes:
        """A signature that is valid for equal `data` and equal `bound_to` (JSON values) only."""
        context = json.dumps(bound_to).encode() + b"\0" if bound_to else b""
        return hmac.digest(self._key, context + data, "sha256")[: self.size_bytes]

    def verify(self, signature: bytes, data: bytes, *bound_to: object) -> bool:
        """Whether the signature is ours, compared in constant time."""
        return hmac.compare_digest(signature, self.sign(data, *bound_to))


def to_base64url(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_base64url(text: str) -> bytes:
    """The bytes of `to_base64url`; raises ValueError for any other spelling of them."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64url: {error}") from None
    if to_base64url(data) != text:
        raise ValueError("not the canonical spelling of base64url")
    return data

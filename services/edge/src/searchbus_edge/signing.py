"""What signatures on cursors and ids of web pages share: keys, and the spelling of bytes.

Each purpose has a key of its own, derived from the deployment's key, so that a signature for one
purpose is worthless for another. Base64 is read strictly: a token has exactly one spelling.
(itsdangerous accepts several spellings of a signature.)
"""

from __future__ import annotations

import base64
import binascii
import hashlib

__all__ = ["derived_key", "from_base64url", "to_base64url"]

_URL_LETTERS = bytes.maketrans(b"+/", b"-_")


def derived_key(key: bytes, purpose: str) -> bytes:
    """The key of one purpose, 32 bytes.

    Args:
        key: shared by all edges of a deployment (`STATE_KEY`).
    """
    return hashlib.sha256(f"searchbus/{purpose}/".encode() + key).digest()


def to_base64url(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    text = binascii.b2a_base64(data, newline=False).translate(_URL_LETTERS)
    return text.rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes of `to_base64url`; raises ValueError for any other spelling of them."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64url: {error}") from None
    if to_base64url(data) != text:
        raise ValueError("not the canonical spelling of base64url")
    return data

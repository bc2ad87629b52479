"""Texts that only we can read and make: JWE with AES-256-GCM (RFC 7516), for what is kept in files
and what passes through browsers.

    sealer = Sealer(key)
    text = sealer.seal("ticket", value)
    sealer.open("ticket", text, Ticket)
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

import msgspec
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

__all__ = ["KEY_BYTES", "Sealer", "key_from_text"]

T = TypeVar("T")
KEY_BYTES = 32
_ALGORITHMS = ["dir", "A256GCM"]
_MAX_CHARS = 64 * 1024


def key_from_text(text: str) -> bytes:
    """The key of 32 bytes in base64, as `openssl rand -base64 32` prints it.

    Raises:
        ValueError: it is something else.
    """
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError("must be 32 bytes in base64: openssl rand -base64 32")
    return key


class Sealer:
    """Seals and opens.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = OctKey.import_key(key)

    def seal(self, purpose: str, value: Any) -> str:
        """A text that says nothing to others.

        Args:
            purpose: must be the same when it is opened.
            value: what msgspec encodes.
        """
        header = {"alg": "dir", "enc": "A256GCM", "typ": purpose}
        return jwe.encrypt_compact(
            header, msgspec.json.encode(value), self._key, algorithms=_ALGORITHMS
        )

    def open(self, purpose: str, text: str, kind: type[T]) -> T:
        """The value.

        Raises:
            ValueError: it was not sealed with this key for this purpose.
        """
        found = None
        if len(text) <= _MAX_CHARS:
            try:
                found = jwe.decrypt_compact(text, self._key, algorithms=_ALGORITHMS)
            except (JoseError, ValueError, TypeError, KeyError):
                found = None
        if found is None or found.plaintext is None or found.headers().get("typ") != purpose:
            raise ValueError("it was not sealed with this key")
        try:
            return msgspec.json.decode(found.plaintext, type=kind)
        except msgspec.MsgspecError:
            raise ValueError("it was sealed by another version") from None

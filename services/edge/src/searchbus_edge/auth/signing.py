"""What clients carry for the edge, signed: cursors, ids of web pages, the state of tools.

Each purpose has a key of its own, derived from the deployment's key, so that a signature for one
purpose is worthless for another. Base64 is read strictly: a token has exactly one spelling.
(itsdangerous accepts several spellings of a signature.)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import secrets
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from searchbus_runtime import Secret
from searchbus_runtime.files import locked, write_atomically

if TYPE_CHECKING:
    from mcp.server.request_state import RequestStateCodec

StateKey = bytes | Secret
"""The key that all edges of a deployment share: one that never changes, or that may be rotated."""

log = logging.getLogger("searchbus.edge")
KEY_FILE = "edge.key"
_KEY_BYTES = 32
UNKNOWN_CURSOR = "Unknown cursor. Omit it to start from the first page."
_MAX_CHARS = 2048
_SIGNATURE_BYTES = 16


@lru_cache(maxsize=64)
def derived_key(key: bytes, purpose: str) -> bytes:
    """The key of one purpose, 32 bytes, from the key that all edges share (`STATE_KEY`)."""
    return hashlib.sha256(f"searchbus/{purpose}/".encode() + key).digest()


class StateKeys:
    """The keys of one purpose (empty: the key itself, see `derived_key`), two during a rotation."""

    def __init__(self, key: StateKey, purpose: str) -> None:
        self._key = key
        self._purpose = purpose

    def issuing(self) -> bytes:
        """The key that signs: the old one until it is retired, since every edge has it."""
        return self.accepted()[0]

    def accepted(self) -> list[bytes]:
        """The keys whose signatures are valid; the first one signs."""
        given, purpose = self._key, self._purpose
        keys = [given] if isinstance(given, bytes) else [text.encode() for text in given.accepted()]
        return [derived_key(key, purpose) for key in keys] if purpose else keys


def to_base64url(data: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """The bytes of `to_base64url`; raises ValueError for any other spelling of them."""
    data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if to_base64url(data) != text:
        raise ValueError("not the canonical spelling of base64url")
    return data


def load_key(folder: Path | None) -> bytes:
    """The key where none is configured: one kept in the data folder; else one for this process.

    Several edges must share one (`SEARCHBUS_STATE_KEY`); otherwise an id that one edge issued is
    unknown to the others. A damaged key is replaced, and logged.

    Raises:
        OSError: the key can be neither read nor written.
    """
    if folder is None:
        log.warning(
            "no SEARCHBUS_STATE_KEY and no data folder: ids and cursors end with this process"
        )
        return secrets.token_bytes(_KEY_BYTES)
    path = folder / KEY_FILE
    with suppress(FileNotFoundError, ValueError):
        return read_key(path)  # without the lock, since the folder may be read-only
    with locked(path):  # the first of several edges makes the key, and the others read it
        try:
            if path.exists():
                return read_key(path)
        except ValueError as fault:
            log.error("%s A new key replaces it.", fault)
        write_atomically(path, secrets.token_bytes(_KEY_BYTES), mode=0o600)
        return path.read_bytes()


def read_key(path: Path) -> bytes:
    """The key of a file; raises OSError, or ValueError where it is damaged."""
    key = path.read_bytes()
    if len(key) < _KEY_BYTES:
        raise ValueError(
            f"{path} is damaged: {len(key)} bytes of {_KEY_BYTES}. Put it back from a copy, or ids "
            "and cursors issued with it become unknown."
        )
    return key


class CursorError(ValueError):
    """A cursor that was changed, or issued for another list."""


class Cursors:
    """Issues and reads cursors: a position in a list, signed together with the list it belongs to.

    A cursor is `base64url(JSON . 16 bytes of signature)`. The signature covers the list, the query
    and the caller, so that a cursor is valid in its own list only. It never holds a right. Every
    page of a search has one, and nobody keeps it for long: BLAKE2 with a key takes a fifth of the
    time of HMAC-SHA256.
    """

    def __init__(self, key: StateKey) -> None:
        self._keys = StateKeys(key, "cursors")

    def issue(self, state: dict[str, Any], *bound_to: object) -> str:
        """A cursor that holds `state` (JSON) and is valid for equal `bound_to` only."""
        body = msgspec.json.encode(state)
        return to_base64url(body + _sign(self._keys.issuing(), body, bound_to))

    def read(self, cursor: str | None, *bound_to: object) -> dict[str, Any]:
        """The state of a cursor, empty without one; raises CursorError."""
        if cursor is None:
            return {}
        if len(cursor) > _MAX_CHARS or not cursor.isascii():
            raise CursorError("too long, or not ASCII")
        try:
            raw = from_base64url(cursor)
        except ValueError as error:
            raise CursorError(str(error)) from None
        body, signature = raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]
        signatures = (_sign(key, body, bound_to) for key in self._keys.accepted())
        if not any(hmac.compare_digest(signature, valid) for valid in signatures):
            raise CursorError("the signature does not match")
        state: dict[str, Any] = msgspec.json.decode(body)
        return state


class StateCodec:
    """Seals the state that clients carry for tools, by the SDK's codec, with the keys of now."""

    def __init__(self, key: StateKey) -> None:
        self._keys = StateKeys(key, "")
        self._made: tuple[list[bytes], RequestStateCodec] | None = None

    def seal(self, payload: bytes) -> str:
        """See RequestStateCodec."""
        return self._codec().seal(payload)

    def unseal(self, token: str) -> bytes:
        """See RequestStateCodec."""
        return self._codec().unseal(token)

    def _codec(self) -> RequestStateCodec:
        # Imported here: `searchbus doctor` reads keys too, and the SDK takes long to import.
        from mcp.server.request_state import AESGCMRequestStateCodec

        keys = self._keys.accepted()
        if self._made is None or self._made[0] != keys:
            self._made = keys, AESGCMRequestStateCodec([key.hex() for key in keys])
        return self._made[1]


def _sign(key: bytes, body: bytes, bound_to: tuple[object, ...]) -> bytes:
    # JSON has no zero byte, so that the two parts do not run together.
    signed = msgspec.json.encode(bound_to) + b"\0" + body
    return hashlib.blake2b(signed, key=key, digest_size=_SIGNATURE_BYTES).digest()

"""The key that signs what clients carry for the edge: cursors, tool state, ids of web pages.

Each purpose has a key of its own, derived from the deployment's key, so that a signature for one
purpose is worthless for another. Base64 is read strictly: a token has exactly one spelling.
(itsdangerous accepts several spellings of a signature.)
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import logging
import secrets
from contextlib import suppress
from pathlib import Path

from searchbus_runtime.files import write_atomically

log = logging.getLogger("searchbus.edge")
KEY_FILE = "edge.key"
_KEY_BYTES = 32
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


def load_key(given: str | None, folder: Path | None) -> bytes:
    """The configured key; else one kept in the data folder; else one for this process.

    Several edges must share one (`SEARCHBUS_STATE_KEY`); otherwise an id that one edge issued is
    unknown to the others. A damaged key is replaced, and logged.

    Raises:
        OSError: the key can be neither read nor written.
    """
    if given is not None:
        return given.encode()
    if folder is None:
        log.warning(
            "no SEARCHBUS_STATE_KEY and no data folder: ids and cursors end with this process"
        )
        return secrets.token_bytes(_KEY_BYTES)
    path = folder / KEY_FILE
    with suppress(FileNotFoundError, ValueError):
        return read_key(path)  # without the lock, since the folder may be read-only
    folder.mkdir(parents=True, exist_ok=True)
    # The first of several edges makes the key, and the others read it.
    with (folder / ".edge.key.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if path.exists():
                return read_key(path)
        except ValueError as fault:
            log.error("%s A new key replaces it.", fault)
        write_atomically(path, secrets.token_bytes(_KEY_BYTES), mode=0o600)
        return path.read_bytes()


def read_key(path: Path) -> bytes:
    """The key of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    key = path.read_bytes()
    if len(key) < _KEY_BYTES:
        raise ValueError(
            f"{path} is damaged: {len(key)} bytes of {_KEY_BYTES}. Put it back from a copy, or ids "
            "and cursors issued with it become unknown."
        )
    return key

"""The key that signs what clients carry for the edge: cursors, tool state, ids of web pages."""

from __future__ import annotations

import fcntl
import logging
import secrets
from contextlib import suppress
from pathlib import Path

from searchbus_runtime.files import write_atomically

__all__ = ["KEY_FILE", "load_key", "read_key"]

log = logging.getLogger("searchbus.edge")
KEY_FILE = "edge.key"
_KEY_BYTES = 32


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

"""The key that signs what clients carry for the edge: cursors, tool state, ids of web pages."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from searchbus_runtime.files import write_atomically

__all__ = ["load_key"]

log = logging.getLogger("searchbus.edge")
_KEY_BYTES = 32


def load_key(given: str | None, folder: Path | None) -> bytes:
    """The configured key; else one kept in the data folder; else one for this process.

    Several edges must share one (`SEARCHBUS_STATE_KEY`); otherwise an id that one edge issued is
    unknown to the others.

    Raises:
        ValueError: the key file is damaged.
    """
    if given is not None:
        return given.encode()
    if folder is None:
        log.warning(
            "no SEARCHBUS_STATE_KEY and no data folder: ids and cursors end with this process"
        )
        return secrets.token_bytes(_KEY_BYTES)
    path = folder / "edge.key"
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".edge.key.{secrets.token_hex(6)}"
    try:
        write_atomically(draft, secrets.token_bytes(_KEY_BYTES), mode=0o600)
        # A link is made whole or not at all, and only once: the first of several edges wins.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return _read(path)


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) < _KEY_BYTES:
        raise ValueError(f"{path} is damaged. Delete it; ids issued so far become unknown.")
    return key

"""The secret that seals what clients carry for us: cursors, tool state, ids of web pages."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

__all__ = ["load_key"]

log = logging.getLogger("searchbus.edge")


def load_key(given: str | None, folder: Path | None) -> bytes:
    """The configured key; else one kept in the data folder; else one for this process.

    Several edges must share one (`SEARCHBUS_STATE_KEY`), else an id of one is unknown to another.
    """
    if given is not None:
        return given.encode()
    if folder is None:
        log.warning(
            "no SEARCHBUS_STATE_KEY and no data folder: ids and cursors end with the process"
        )
        return secrets.token_bytes(32)
    path = folder / "edge.key"
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(32))
    return _read(path)


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) < 32:
        raise ValueError(f"{path} is damaged: delete it, and ids given so far are unknown")
    return key

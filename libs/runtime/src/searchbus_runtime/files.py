"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, data: bytes | str, *, mode: int | None = None) -> None:
    """Replace a file in one step: a reader finds the old content or the new, also after a crash.

    Args:
        path: its folder must exist.
        data: text is written as UTF-8.
        mode: permissions of the file, e.g. 0o600; `None` leaves them to the umask.

    Raises:
        OSError: the file could not be written; the old content is still there.
    """
    content = data.encode() if isinstance(data, str) else data
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    # The permissions are set before the content: a secret is never readable by others.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise

"""A folder of its own for the temporary files of a command."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import ServerDeclarationError

_PREFIX = "searchbus-attach-"


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A new folder; afterwards it is removed, which may take long.

    It is locked as long as this process lives. Folders that no process holds are removed as well,
    in the background: a process that was killed left them.

    Raises:
        ServerDeclarationError: it cannot be made.
    """
    try:
        # Nobody takes it for one that was left before it is locked, and has its name.
        new = Path(tempfile.mkdtemp(prefix="searchbus-"))
        lock = os.open(new, os.O_RDONLY)
    except OSError as error:
        found = ": ".join(filter(None, (error.strerror, error.filename)))
        raise ServerDeclarationError(
            f'confine = "files": no folder for temporary files can be made ({found}); free '
            "some space there, or name a folder as TMPDIR in 'env'"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = new.rename(new.with_name(new.name.replace("searchbus-", _PREFIX, 1)))
        threading.Thread(target=_remove_left, daemon=True).start()
        try:
            yield str(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _remove_left() -> None:
    """Remove the folders that no process holds."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is held, or of another user
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)

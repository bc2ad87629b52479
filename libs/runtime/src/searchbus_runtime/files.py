"""Files that are replaced in one step, and whether they changed or are damaged."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Change a file alone among all processes: who reads it before it writes loses no change.

    The lock is a file beside it: the file itself is replaced, and a lock on it with it. Its folder
    is made where it is missing.

    Raises:
        OSError: the lock cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """Changes with a file's content and readers; None without a file. Raises OSError for its
    folder."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    # A file that became readable is read again: the time is that of the last change of content,
    # owner or permissions. Two changes can have the same time, by the kernel's clock.
    return status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode


def damage(*reads: Callable[[], object]) -> list[str]:
    """A sentence for each file that cannot be used. `reads` read one file each; an absent one is
    fine."""
    found = []
    for read in reads:
        try:
            read()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            found.append(str(error))
    return found

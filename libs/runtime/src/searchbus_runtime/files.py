"""Files that are replaced in one step, changed or damaged ones, and space for starts."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def expanded(path: str) -> Path:
    """A path whose `~` is the home of this user, or of the one that it names.

    Raises:
        FileNotFoundError: the system knows no such home.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "There is no such home folder", path) from None


def write_atomically(path: Path, data: bytes | str, *, mode: int | None = None) -> None:
    """Replace a file in one step: a reader finds the old content or the new, also after a crash.

    `mode` are its permissions, by default those of the umask. What root writes belongs to the owner
    of the old file, or of the folder: the service that it is for can read it at any time. Raises
    OSError; the old one stays.
    """
    content = data.encode() if isinstance(data, str) else data
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    # The permissions are set before the content: a secret is never readable by others.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:
                owner = (path if path.exists() else path.parent).stat()
                with suppress(PermissionError):  # a root that may not give files to others
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
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
    is made where it is missing, for its owner alone: it may be the data folder. Raises OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """Changes with a file's content and readers; None without one. Raises OSError (folder)."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    # A file that became readable is read again: the time is that of the last change of content,
    # owner or permissions. Two changes can have the same time, by the kernel's clock.
    return status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode


def damage(*reads: Callable[[], object]) -> list[str]:
    """A sentence for each unusable file; `reads` read one file each; an absent one is fine."""
    found = []
    for read in reads:
        try:
            read()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            found.append(str(error))
    return found


log = logging.getLogger("searchbus.storage")

RESERVE_BYTES = 4 * 2**20
_PLENTY_BYTES = 16 * RESERVE_BYTES
_LEAST_BYTES = 64 * 2**10


@contextmanager
def space_for_start(
    folder: Path, user: str,
    *, free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Iterator[None]:  # fmt: skip
    """Keep a few MiB of a data folder for starts on a full disk; release them for the block.

    A start writes small files: configuration, ports, what the document store needs to open. While
    there is space a file of that size is kept. A start that finds the disk full removes it first,
    and keeps what is left of it for the next start. Each user has a file of its own: one that needs
    all of it must not stop the next start of another.
    """
    path = folder / f".reserve-{user}"
    free = free_bytes(folder)
    released = free < RESERVE_BYTES and path.exists()
    try:
        if released:
            path.unlink()
            log.warning("the disk of %s is full; the reserve for %s is used", folder, user)
        elif free >= _PLENTY_BYTES:
            _allocate(path, RESERVE_BYTES)
    except OSError as error:  # the reserve is a precaution
        log.warning("the reserve of %s could not be changed: %s", folder, error.strerror)
    try:
        yield
    finally:
        if released:
            _keep_rest(path, free_bytes(folder))


def _keep_rest(path: Path, free: int) -> None:
    """Take back what the start has left, before logs and traces fill the disk again."""
    size = min(RESERVE_BYTES, free)
    while size >= _LEAST_BYTES:
        try:
            _allocate(path, size)
        except OSError:  # the file system needs some of it for itself
            size //= 2
        else:
            return
    log.warning("the disk of %s is full; nothing is left for another start", path.parent)


def _allocate(path: Path, size: int) -> None:
    """Make the file that large; its blocks are allocated."""
    if path.exists() and path.stat().st_size >= size:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.write(descriptor, b"\xff" * size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)

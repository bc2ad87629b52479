"""Files: replaced in one step, written line by line by a thread, and kept for a full disk.

write_atomically(path, data)
with space_for_start(folder, "nats"):      # before anything else is written there
    ...
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shutil
import threading
from collections import deque
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
    """Changes with the content of a file, and with who may read it; None where there is no file.

    Raises:
        OSError: its folder cannot be read.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    # A file that became readable is read again: the time is that of the last change of content,
    # owner or permissions. Two changes can have the same time, by the kernel's clock.
    return status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode


def damage(*reads: Callable[[], object]) -> list[str]:
    """What is wrong with files, a sentence for each that cannot be used.

    Args:
        reads: each reads one file; an absent one is not damaged.
    """
    found = []
    for read in reads:
        try:
            read()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            found.append(str(error))
    return found


_AT_ONCE = 1000


class LineQueue:
    """Lines that a thread writes, in the order of `add`: no request waits for a file.

    A line is encoded before it is queued. Kept as objects, thousands of them would leave the
    processor's caches, and a thread that encodes them holds the interpreter for milliseconds.

    Args:
        write: gets the next lines, at most 1,000 at once; must not raise.
        name: of the thread, which starts with the first line.
        every_s: seconds between two writes.
        max_queued: a further line is refused.
    """

    def __init__(
        self, write: Callable[[list[bytes]], None], *, name: str, every_s: float, max_queued: int
    ) -> None:
        self._write = write
        self._name = name
        self._every_s = every_s
        self._max_queued = max_queued
        self._lines: deque[bytes] = deque()
        self._writing = threading.Lock()
        self._waiting = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, line: bytes) -> bool:
        """Queue a line; False, and nothing done, where the queue is full."""
        if len(self._lines) >= self._max_queued:
            return False
        self._lines.append(line)
        if not self._waiting.is_set():
            self._waiting.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return True

    def flush(self) -> None:
        """Write every queued line now."""
        with self._writing:
            self._waiting.clear()
            if self._closed.is_set():  # `close` may have set both just before
                self._waiting.set()
            while self._lines:
                count = min(len(self._lines), _AT_ONCE)
                self._write([self._lines.popleft() for _ in range(count)])

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._closed.set()
        self._waiting.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.flush()

    def _run(self) -> None:
        # Without lines it sleeps: an idle process wakes up for nothing.
        while self._waiting.wait() and not self._closed.wait(self._every_s):
            self.flush()


log = logging.getLogger("searchbus.storage")

RESERVE_BYTES = 4 * 2**20
_PLENTY_BYTES = 16 * RESERVE_BYTES
_LEAST_BYTES = 64 * 2**10


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@contextmanager
def space_for_start(
    folder: Path, user: str, *, free_bytes: Callable[[Path], int] = _free_bytes
) -> Iterator[None]:
    """Keep a few MiB of a data folder for starts on a full disk; release them for the block.

    A start writes small files: configuration, ports, what the document store needs to open. While
    there is space a file of that size is kept. A start that finds the disk full removes it first,
    and keeps what is left of it for the next start. Each user has a file of its own: one that needs
    all of it must not stop the next start of another.

    Args:
        folder: it must exist.
        user: part of the file's name.
        free_bytes: the free space of a folder's disk; tests pass their own.
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

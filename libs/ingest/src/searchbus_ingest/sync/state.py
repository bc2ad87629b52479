"""What a sync remembers of a source, in `<data>/sync/`: one file for each source and collection.

It only saves work. Which documents are a source's is written in the documents themselves, so that a
sync without this file, on another machine, stores and deletes the same; it reads everything again.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from searchbus_contracts import VERSION
from searchbus_runtime.files import write_atomically
from searchbus_runtime.state import STATE_FILE
from searchbus_runtime.state import read_state as running_stack

from .rows import SLOT_S, read_rows, seconds_of

FOLDER = "sync"


class SourceBusyError(Exception):
    """Another process syncs this source now."""


class SyncState(msgspec.Struct):
    """The file.

    Args:
        source: the address; another one under the same name is read as a new source.
        version: of searchbus; another one may read files in another way.
        entries: name → stamp, and digest of the documents that it led to; in the order in which
            they were looked at. Without a stamp only reading tells of a change.
        stamp: of the whole source at the last complete sync.
        digest: of all its documents then.
        ran_s: when the last sync ended, in seconds since 1970.
        failures: syncs that failed since the last one that did not.
        problem: why the last one failed; empty where it did not.
        counts: documents of the last sync by outcome.
    """

    name: str = ""
    collection: str = ""
    source: str = ""
    version: str = VERSION
    entries: dict[str, tuple[str, str]] = {}
    stamp: str = ""
    digest: str = ""
    ran_s: float = 0.0
    failures: int = 0
    problem: str = ""
    counts: dict[str, int] = {}


def state_path(data: Path, collection: str, name: str) -> Path:
    """The file of a source; what else belongs to it is beside it, with another suffix."""
    key = sha256(f"{collection}\0{name}".encode()).hexdigest()[:24]
    return data / FOLDER / f"{key}.json"


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Have a source alone among all processes of this machine.

    Raises:
        SourceBusyError: another process has it.
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SourceBusyError("another sync of this source is running; this one ends") from None
        yield


def is_claimed(path: Path) -> bool:
    """Whether a process syncs the source now."""
    try:
        with path.with_suffix(".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)  # else there was no sync yet
    return False


def read_state(path: Path, name: str, collection: str, source: str) -> SyncState:
    """The state of a source; empty where the file is missing, damaged or of another one."""
    fresh = SyncState(name=name, collection=collection, source=source)
    with suppress(OSError, ValueError):
        found = msgspec.json.decode(path.read_bytes(), type=SyncState)
        if (found.source, found.version) == (source, VERSION):
            return found
        fresh.failures = found.failures
    return fresh


def write_state(path: Path, state: SyncState) -> None:
    """Replace the file; raises OSError."""
    write_atomically(path, msgspec.json.encode(state), mode=0o600)


def digest_of(revisions: Mapping[str, str]) -> str:
    """Equal for equal documents, id → revision."""
    rows = "\n".join(f"{key} {revisions[key]}" for key in sorted(revisions))
    return sha256(rows.encode()).hexdigest()[:16]


def check(folder: Path) -> tuple[str, bool, str]:
    """What `searchbus doctor` says: how the last sync of each source on this machine went, and
    which source of a running stack is overdue. Raises Fault where the stack's file is wrong."""
    rows, ok = [], True
    ran_s: dict[tuple[str, str], float] = {}
    for path in sorted((folder / FOLDER).glob("*.json")):
        try:
            state = msgspec.json.decode(path.read_bytes(), type=SyncState)
        except (OSError, ValueError):
            continue  # the next sync makes it anew
        if not state.ran_s:
            continue
        ran_s[state.name, state.collection] = state.ran_s
        ok &= not state.problem
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(state.ran_s))
        counts = ", ".join(f"{number} {word}" for word, number in state.counts.items() if number)
        text = state.problem or counts
        if state.failures > 1:
            text = f"failed {state.failures} times: {text}"
        rows.append(f"{state.name} ({when}): {text or 'empty'}")
    stack, file = running_stack(folder), folder / "sources.toml"
    for row in read_rows(file) if stack is not None and "sync" in stack.processes else ():
        # A stack that has just started has its first syncs before it.
        changed_s = (one.stat().st_mtime for one in (file, folder / STATE_FILE))
        since_s = max(*changed_s, ran_s.get((row.name, row.collection), 0.0))
        is_late = time.time() > since_s + seconds_of(row.every) + SLOT_S
        if is_late and not is_claimed(state_path(folder, row.collection, row.name)):
            ok = False
            rows.append(f"{row.name} is overdue (every {row.every}): see logs/sync.log")
    return "sync", ok, "; ".join(rows) or "no sources"

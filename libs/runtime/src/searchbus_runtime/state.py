"""How commands and clients find the running stack: the data folder, its state.json, its clients.

A client that started a stack holds the pipe `<data>/clients` open. The kernel closes the pipe with
the process that holds it, however that process ends. A line in the pipe is the toolset that a new
client wants; the end of the pipe means that no client is left.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .config_file import named_config, read_config_file
from .files import expanded, write_atomically
from .wording import CommandError

STATE_FILE = "state.json"
_OWN_STAT = Path("/proc/self/stat")
_STAT_STARTTIME = 19
"""Field of /proc/PID/stat after the name (proc(5): 22)."""
STACK_KEYS = Path("secure", "keys.json")
"""The keys of a stack, unless it was started with `--no-secure`."""
LOCK_FILE = "up.lock"
"""Locked by the stack from before its start until after its end."""


@dataclass(frozen=True, slots=True)
class StackState:
    """A running stack: addresses of its edge and its NATS server, processes, its own start
    (`process_started`), where its traces go (empty: the file), and how long it may take to end."""

    url: str
    nats_url: str
    data: str
    pid: int
    processes: dict[str, int] = field(default_factory=dict)
    otlp_endpoint: str = ""
    started: str = ""
    stop_s: float = 60.0

    def is_same(self, other: StackState) -> bool:
        """Whether both are of one start, whatever processes it started again since."""
        return (self.pid, self.started) == (other.pid, other.started)


def data_folder(given: Path | None = None) -> Path:
    """The data folder: `given`, else SEARCHBUS_DATA_DIR, else what the file of SEARCHBUS_CONFIG
    names, else the one in the user's home. Raises WrongSettingsError, UnusableFolderError."""
    if given is not None:
        return given.resolve()
    named = os.environ.get("SEARCHBUS_DATA_DIR")
    if named:
        return Path(named).resolve()
    config = named_config()
    if config is not None and (folder := read_config_file(config).data_folder()):
        return folder.resolve()
    if home := os.environ.get("XDG_DATA_HOME"):
        return Path(home) / "searchbus"
    try:
        return expanded("~") / ".local" / "share" / "searchbus"
    except FileNotFoundError:
        raise UnusableFolderError(
            "This user has no home folder. Name a data folder with --data or SEARCHBUS_DATA_DIR.",
            code=2,
        ) from None


class UnusableFolderError(CommandError):
    """The data folder cannot be made or written; the message says what to do."""


def open_data_folder(given: Path | None = None) -> Path:
    """The data folder, made for its owner alone if missing; raises UnusableFolderError."""
    folder = data_folder(given)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        # As root, and on a read-only disk, the permissions say nothing.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnusableFolderError(
            f"The data folder {folder} cannot be used ({error.strerror}). Choose a folder that you "
            "may write with --data or SEARCHBUS_DATA_DIR.",
            code=2,
        ) from None
    return folder


def write_state(state: StackState) -> None:
    """Write `<data>/state.json` in one step."""
    path = Path(state.data) / STATE_FILE
    write_atomically(path, json.dumps(asdict(state), indent=2) + "\n")


def read_state(data: Path) -> StackState | None:
    """The stack that runs on a data folder; `None` where none runs."""
    try:
        state = StackState(**json.loads((data / STATE_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    try:
        os.kill(state.pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    # After a crash the file is still there, and another process may have the id.
    if state.started and process_started(state.pid) not in ("", state.started):
        return None
    return state


def process_started(pid: int) -> str:
    """When a process started, in the system's own form; empty where the system does not say."""
    if not _OWN_STAT.exists():
        return _started_by_ps(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[_STAT_STARTTIME]


def _started_by_ps(pid: int) -> str:
    import subprocess  # here: Linux does not need it

    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    # A time of day: another shell may have another zone or language.
    same = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=same)
    except OSError:
        return ""
    return done.stdout.strip()


def no_stack(data: Path) -> str:
    """The error where no stack runs on a data folder."""
    return (
        f"No stack is running on {data}. Start one: searchbus up. If one runs on another folder, "
        "name it with --data."
    )


def is_claimed(data: Path) -> bool:
    """Whether a stack runs, starts or stops on a data folder."""
    try:
        with (data / LOCK_FILE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


PIPE = "clients"
EVERYTHING = "*"
"""In the place of a toolset: the client wants all of them."""
_READ_BYTES = 4096


def make_pipe(data: Path) -> int:
    """Open the stack's end, to be its standard input; the descriptor. Raises OSError."""
    path = data / PIPE
    with suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def join_clients(data: Path, toolset: str | None) -> int | None:
    """Count as a client until the descriptor is closed; None where no stack counts them."""
    try:
        descriptor = os.open(data / PIPE, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no pipe, or nobody reads it
        return None
    try:
        os.write(descriptor, f"{toolset or EVERYTHING}\n".encode())
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def counts_clients(data: Path) -> bool:
    """Whether a client started the stack of a data folder, and so would start it again."""
    try:
        os.close(os.open(data / PIPE, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # as in `join_clients`
        return False
    return True


class ClientPipe:
    """The stack's end of the pipe that `make_pipe` opened."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._rest = b""

    def read(self) -> list[str] | None:
        """The toolsets that new clients want; `None` where no client is left."""
        read = self._rest
        while True:
            try:
                piece = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                break
            if not piece:
                return None
            read += piece
        *lines, self._rest = read.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def close(self) -> None:
        """Stop counting."""
        os.close(self.descriptor)

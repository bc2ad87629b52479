"""The process of a command: its own group, limits, environment by allowlist, no way to outlive us.

child = await Child.start(server, reaper, stderr=lines)
child.stdin, child.stdout
await child.end()      # closes standard input, then SIGTERM, then SIGKILL to the group
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import IO

import uvloop

from searchbus_runtime.parent import end_with_parent
from searchbus_runtime.secrecy import public_environment
from searchbus_runtime.wording import printable

from ..declare.servers import Server
from .confinement import restrict, rules
from .reaper import MARK, NICE, hold_back
from .reaping import Reaper
from .temporary import temporary_folder

log = logging.getLogger("searchbus.attach")

MORE_OOM_SCORE = 500
"""Out of memory, the kernel ends the process that has most; one of a command counts as if it had
half of all memory more. Its limit is for each process: many small ones would outlast a service."""
READ_AHEAD_BYTES = 256 * 1024
"""The most that is read of a command's output before it is processed."""
_CLOSED_GRACE_S = 2.0
_TERM_GRACE_S = 2.0
_KILL_GRACE_S = 5.0
_REMOVE_GRACE_S = 1.0
_POLL_S = 0.02
_STDERR_GRACE_S = 0.5
"""To read what it printed last."""
_STDERR_LINE_CHARS = 2_000
_STDERR_BYTES_PER_S = 2**20
_STDERR_LINES_PER_S = 10_000


def child_environment(server: Server) -> dict[str, str]:
    """The whole environment of a command."""
    passed = {name: os.environ[name] for name in server.pass_env if name in os.environ}
    return public_environment() | passed | server.env


def has_program(server: Server) -> bool:
    """Whether the program of a command is there; also where a variable would have to say that."""
    path = child_environment(server).get("PATH")
    if "${" in f"{server.command}{path}{server.cwd}":
        return True
    # A path is one from the folder in which the command starts.
    is_path = os.sep in server.command
    command = Path.cwd() / server.cwd / server.command if is_path else server.command
    return shutil.which(command, path=path) is not None


class ServerProcess:
    """A running command; made by `start`."""

    def __init__(self, process: subprocess.Popen[bytes], reaper: Reaper) -> None:
        self.pid = process.pid
        self.stdin: asyncio.StreamWriter
        self.stdout: asyncio.StreamReader
        self._process = process
        self._reaper = reaper
        self._reading: asyncio.Task[None] | None = None
        self._pipes: list[asyncio.BaseTransport] = []
        self._made = ExitStack()

    @classmethod
    async def start(
        cls,
        server: Server,
        reaper: Reaper,
        on_stderr: Callable[[str], None],
        own: Iterable[Path] = (),
    ) -> ServerProcess:
        """Start the command of a server, whose variables are expanded.

        Args:
            on_stderr: receives the lines that it prints to standard error, one or many.
            own: files and folders of ours that it must not reach, see confinement.py.

        Raises:
            OSError: there is no such program, or it cannot be started.
            DeclarationError: it cannot be confined as it is declared.
        """
        mark = secrets.token_hex(8)
        environment = child_environment(server) | {MARK: mark}

        def limit() -> None:
            # Between fork and exec.
            end_with_parent(signal.SIGKILL)
            os.nice(NICE)
            for kind, most in (
                (resource.RLIMIT_DATA, server.memory_mib * 2**20),
                (resource.RLIMIT_NOFILE, server.open_files),
                (resource.RLIMIT_CORE, 0),
            ):
                hard = resource.getrlimit(kind)[1]
                most = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(kind, (most, most))
            if confinement is not None:
                restrict(confinement)

        with ExitStack() as made, ExitStack() as opened:
            if server.confine == "files" and not server.env.get("TMPDIR"):
                # In the folder of all programs ours write, too, and would follow its links.
                environment["TMPDIR"] = made.enter_context(temporary_folder())
            confinement = await asyncio.to_thread(rules, server, environment, own)
            if confinement is not None:
                opened.callback(os.close, confinement)
            with reaper.starting():
                process = await _run(server, environment, limit)
                child = cls(process, reaper)
                try:
                    reaper.watch(process.pid, server.processes, mark)
                    await child._open(on_stderr)
                except OSError:  # no descriptor is left
                    process.kill()
                    await asyncio.to_thread(process.wait)
                    reaper.forget(process.pid)  # which ends what it started
                    raise
            child._made = made.pop_all()
        if sys.platform == "linux":
            _expose_to_oom(process.pid)
            hold_back(process.pid)
        return child

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    async def exit_code(self, timeout_s: float) -> int | None:
        """Its exit code, as soon as it has ended, and what it printed to standard error is read;
        None where it does not end in time.
        """
        await self._ended_within(timeout_s, self._has_exited)
        # A process that it started could hold the pipe open.
        if self._reading is not None and self.code is not None:
            await asyncio.wait([self._reading], timeout=_STDERR_GRACE_S)
        return self.code

    @property
    def has_too_many(self) -> bool:
        """Whether it was killed, since it started too many processes."""
        return self._reaper.has_ended(self.pid)

    async def end(self) -> None:
        """End it and all that it started; raises nothing."""
        with suppress(OSError):
            self.stdin.close()
        if not await self._ended_within(_CLOSED_GRACE_S, self._has_exited):
            log.info("process %d does not end with its input; it gets SIGTERM", self.pid)
        if self._signal(signal.SIGTERM) and not await self._ended_within(
            _TERM_GRACE_S, self._group_is_gone
        ):
            log.warning("process group %d ignores SIGTERM; it is killed", self.pid)
            self._signal(signal.SIGKILL)
            if not await self._ended_within(_KILL_GRACE_S, self._group_is_gone):
                log.error("process group %d is still there after SIGKILL", self.pid)
        self._reaper.forget(self.pid)
        # A process that left the group could hold the pipes open.
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=_STDERR_GRACE_S)
            self._reading.cancel()
        # Objects of a lost connection refer to each other until they are collected, seldom: of half
        # a megabyte for each this was the largest part.
        self.stdout.feed_eof()
        with suppress(OSError):
            await self.stdout.read()
        for pipe in self._pipes:
            pipe.close()
        # It may have left very many files; no stop waits for the thread that removes them.
        removing = threading.Thread(target=self._made.close, daemon=True)
        removing.start()
        await self._ended_within(_REMOVE_GRACE_S, lambda: not removing.is_alive())

    async def _open(self, on_stderr: Callable[[str], None]) -> None:
        """Open its pipes, and read what it prints to standard error."""
        loop, process = asyncio.get_running_loop(), self._process
        self.stdout, stderr = (asyncio.StreamReader(limit=READ_AHEAD_BYTES) for _ in range(2))
        for reader, pipe in ((self.stdout, process.stdout), (stderr, process.stderr)):
            reading = partial(asyncio.StreamReaderProtocol, reader)
            self._pipes.append((await loop.connect_read_pipe(reading, _taken(pipe)))[0])
        writing = partial(asyncio.StreamReaderProtocol, asyncio.StreamReader())
        transport, protocol = await loop.connect_write_pipe(writing, _taken(process.stdin))
        self._pipes.append(transport)
        self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        self._reading = loop.create_task(self._read_stderr(stderr, on_stderr))

    async def _read_stderr(
        self, stream: asyncio.StreamReader, on_lines: Callable[[str], None]
    ) -> None:
        rest = ""
        while chunk := await stream.read(65_536):
            *lines, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
            if lines:
                on_lines("\n".join(line[:_STDERR_LINE_CHARS] for line in lines))
            rest = rest[:_STDERR_LINE_CHARS]
            # One that prints more waits for its pipe; other servers do not wait for it.
            pause_s = max(len(chunk) / _STDERR_BYTES_PER_S, len(lines) / _STDERR_LINES_PER_S)
            await asyncio.sleep(pause_s)
        if rest:
            on_lines(rest)

    async def _ended_within(self, seconds: float, ended: Callable[[], bool]) -> bool:
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + seconds
        while not ended():
            if loop.time() >= give_up_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    def _has_exited(self) -> bool:
        return self.code is not None

    def _group_is_gone(self) -> bool:
        if not self._has_exited():
            return False
        # As the first process of a container we inherit what its parents left behind.
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        """Signal the whole group; False where none of it is left."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so of processes that have ended
            return not self._has_exited()
        return True


async def _run(
    server: Server, environment: Mapping[str, str], before: Callable[[], None]
) -> subprocess.Popen[bytes]:
    """Start the program of a command, which calls `before` first; raises OSError."""
    try:
        # In a thread: uvloop's own way holds the loop until the new process has a CPU, and runs
        # its program. The thread lives as long as the service: its end would end the process.
        return await asyncio.to_thread(
            subprocess.Popen,
            [server.command, *server.args],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=server.cwd or None,
            start_new_session=True,
            preexec_fn=before,
        )
    except FileNotFoundError as error:
        if error.filename == server.cwd:
            message = f"there is no folder {server.cwd}"
            raise NotADirectoryError(error.errno, message) from None
        raise


def _taken(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe for the loop, which closes it. uvloop would close the descriptor, and then the file,
    when the descriptor may already be one of another thread."""
    assert pipe is not None
    with pipe:
        descriptor = os.dup(pipe.fileno())
    closes = not isinstance(asyncio.get_running_loop(), uvloop.Loop)
    return open(descriptor, pipe.mode, buffering=0, closefd=closes)


_MAX_BYTES = 2**20
_SHOWN_LINES = 5
_SHOWN_CHARS = 200
_MASK = "***"
_LEAST_SECRET_CHARS = 4
"""A shorter value, such as 1 or on, is no secret, and stands in other words too."""
_FORMATTER = logging.Formatter()
_log = logging.getLogger("searchbus.attach")


class _SharedFile(WatchedFileHandler):
    """A file that others append to as well: who makes it too large replaces it, once."""

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if self.stream is None or self.stream.tell() < _MAX_BYTES:
            return
        fcntl.flock(self.stream, fcntl.LOCK_EX)
        # Whoever waited for the lock has the file that was replaced, and opens the new one.
        path = Path(self.baseFilename)
        if path.exists() and path.stat().st_ino == self.ino:
            path.replace(f"{path}.1")
        self.reopenIfNeeded()

    def handleError(self, _: logging.LogRecord) -> None:
        """Raise what `write` reports once; a full disk would be a traceback for each record."""
        raise


class ChildLog:
    """`<folder>/attach-<server>.log` and one older file; without a folder, our own log at debug.
    `told` does not show secrets."""

    def __init__(self, server: str, folder: Path | None, secrets: Iterable[str] = ()) -> None:
        self._server = server
        self._path = None if folder is None else folder / f"attach-{server}.log"
        self._handler: _SharedFile | None = None
        # Lines of a file may be of others, and can be read there.
        self._last: deque[str] | None = deque(maxlen=_SHOWN_LINES) if folder is None else None
        self._is_empty = True
        lines = {line.strip() for value in secrets for line in (value, *value.splitlines())}
        # The longest first: one value may be a part of another.
        self._secrets = sorted(
            (printable(line) for line in lines if len(line) >= _LEAST_SECRET_CHARS),
            key=len,
            reverse=True,
        )

    @property
    def told(self) -> str:
        """What the end of an error says of it: the file, or where there is none the last lines."""
        if self._is_empty:
            return ", and printed nothing to standard error"
        if self._last is None:
            return f"; see {self._path}" if self._path is not None else ""
        return ". It printed last:" + "".join(f"\n  {line}" for line in self._last)

    def write(self, text: str) -> None:
        """Append one line or many; raises nothing."""
        text = printable(text)
        self._is_empty = self._is_empty and not text.strip()
        if self._last is not None:
            shown = text
            for secret in self._secrets:
                shown = shown.replace(secret, _MASK)
            kept = (line.strip()[:_SHOWN_CHARS] for line in shown.split("\n"))
            self._last.extend(line for line in kept if line)
        if self._path is None:
            _log.debug("%s: %s", self._server, text)
            return
        try:
            if self._handler is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._handler = _SharedFile(self._path, encoding="utf-8", errors="backslashreplace")
            # One record: a command can print thousands of lines at once.
            record = logging.makeLogRecord({})
            stamp = _FORMATTER.formatTime(record)
            record.msg = "\n".join(f"{stamp} {line}" for line in text.split("\n"))
            self._handler.emit(record)
        except OSError as error:
            _log.warning("the log of %s cannot be written: %s", self._server, error)
            self._path = None

    def close(self) -> None:
        """Close the file."""
        if self._handler is not None:
            with suppress(OSError):  # what a full disk did not take is tried once more
                self._handler.close()
            self._handler = None


def _expose_to_oom(pid: int) -> None:
    """Raise the score of a process for the lack of memory.

    Not between fork and exec: there it is a process with secrets still, whose files are root's.
    """
    ours, its = (Path(f"/proc/{one}/oom_score_adj") for one in ("self", pid))
    try:
        its.write_text(str(min(1000, int(ours.read_text()) + MORE_OOM_SCORE)))
    except OSError as error:
        log.info("process %d keeps its score for the lack of memory: %s", pid, error)

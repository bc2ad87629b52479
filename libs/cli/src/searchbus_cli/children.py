"""Child processes: their lines go to logs, they are started again when they end, and stopped.

One that cannot be kept running ends a stack that starts; later only NATS or an edge does. A child
gets SIGTERM when its parent ends: even `kill -9` of `searchbus up` leaves no process behind.
"""

from __future__ import annotations

import asyncio
import os
import time
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Literal

from rich.text import Text

from searchbus_runtime.parent import KERNEL_ENDS_CHILDREN, end_with_parent
from searchbus_runtime.python import python
from searchbus_runtime.secrecy import SETTINGS_FD, public_environment, without_settings
from searchbus_runtime.wording import printable

from .errors import StackError
from .launching import ForkedProcess, Launcher
from .output import tell

QUICK_DEATH_S = 10.0
MAX_QUICK_DEATHS = 5
SHOWN_LINES = 8
SHOWN_ERRORS = 3
"""Lines of level error that are printed for each run of a process whose lines only go to the log:
a damaged file of the data folder is seen at the start."""
MAX_BYTES = 5 * 2**20
"""Size of one log file."""
RETRY_S = 30.0
"""Seconds between attempts to start a service that ends at once, while the others run."""
Kind = Literal["edge", "service", "fakes", "nats"]
_STOPPED_IN_ORDER: Sequence[Kind] = ("edge", "service", "fakes", "nats")
_VITAL: Sequence[Kind] = ("edge", "nats")
_POLL_S = 0.02
_FAULT = "error: "
"""What a line about wrong settings begins with."""
_ERROR_LEVEL = "[error "
_COLORS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green")


class GaveUpError(RuntimeError):
    """A child ended several times in a row right after its start.

    Attributes:
        code: its exit code; 2 says that another start would fail as well.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Child:
    """A process that should run.

    Args:
        name: printed before each of its lines.
        log: keeps its lines; without one they are only printed.
        verbose: whether its lines are printed; otherwise only the first errors are.
        command: program and arguments.
        environment: added to our own.
        inherits: whether it gets all of our own; else only the variables without secrets.
        color: of the name, in rich's terms; by default chosen by the name.
        service: arguments of `python -m searchbus_runtime`, where the command is that: then
            `launcher` starts it while it is open, which takes a fraction of the time.
        preload: modules that the launcher imports before.
        stop_s: seconds that it may take to end after SIGTERM.
    """

    name: str
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    inherits: bool = True
    color: str = ""
    service: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    launcher: Launcher | None = None
    log: LogFile | None = None
    verbose: bool = True
    stop_s: float = 15.0
    process: Process | ForkedProcess | None = None
    stopping: bool = False
    _deaths_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.color = self.color or _COLORS[sum(self.name.encode()) % len(_COLORS)]

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        if self.process is None or self.process.returncode is not None:
            return None
        return self.process.pid

    async def keep_running(self, on_start: Callable[[Child], None]) -> None:
        """Start it, and start it again whenever it ends, until `stop`.

        Args:
            on_start: called after each start.

        Raises:
            GaveUpError: it ended with code 2 (another start would fail as well), or five times
                within ten seconds of its start.
        """
        self._deaths_s = []
        while not self.stopping:
            try:
                await self._start()
            except OSError as error:  # no process, e.g., or no descriptor is left
                remedy = "Install it again where it is gone; else end other processes."
                raise GaveUpError(f"{self.name} cannot be started ({error}). {remedy}", 1) from None
            if self._is_stopping():  # `stop` found none
                await self.stop()
                return
            on_start(self)
            started_s = time.monotonic()
            code = await self._follow()
            if self._is_stopping():
                return
            lived_s = time.monotonic() - started_s
            self._deaths_s = [*self._deaths_s, lived_s][-MAX_QUICK_DEATHS:]
            quick = [lived for lived in self._deaths_s if lived < QUICK_DEATH_S]
            if code == 2 and (faults := self._faults()):
                raise GaveUpError(faults, code)
            if code == 2 or len(quick) == MAX_QUICK_DEATHS:
                raise GaveUpError(f"{self.name} ended with code {code}{self._last_lines()}", code)
            pause_s = min(5.0, 0.2 * 2 ** len(quick)) if lived_s < QUICK_DEATH_S else 0.2
            self.say(f"ended with code {code} after {lived_s:.1f} s; it is started again")
            await asyncio.sleep(pause_s)

    def _is_stopping(self) -> bool:
        return self.stopping

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if it still runs after `stop_s`."""
        self.stopping = True
        process = self.process
        if process is None or process.returncode is not None:
            return
        try:
            process.terminate()
            await asyncio.wait_for(process.wait(), self.stop_s)
        except TimeoutError:
            self.say(f"did not stop within {self.stop_s:.0f} s; it is killed")
            process.kill()
            await process.wait()
        except ProcessLookupError:
            return

    def say(self, line: str) -> None:
        """Print a line under its name, and keep it."""
        self._keep(line)
        self._print(line)

    def _keep(self, line: str) -> None:
        if self.log is not None:
            self.log.write(line)

    def _print(self, line: str) -> None:
        text = Text.assemble((f"{self.name:>12}", self.color), f" {line}")
        tell(text)

    def _faults(self) -> str:
        """The faults of its settings, which were its last lines; an error for each."""
        lines = self.log.last(SHOWN_LINES) if self.log is not None else []
        faults = takewhile(lambda line: line.startswith(_FAULT), reversed(lines))
        return "\n".join(reversed(list(faults))).removeprefix(_FAULT)

    def _last_lines(self) -> str:
        """What explains its end, where that was not printed."""
        if self.log is None or self.verbose:
            return "; its last lines say why."
        lines = "".join(f"\n  {line}" for line in self.log.last(SHOWN_LINES))
        return f". The end of {self.log.path}:{lines}"

    async def _start(self) -> None:
        ours = os.environ if self.inherits else public_environment()
        environment = {**ours, **self.environment}
        if self.launcher is not None and self.service:
            self.process = await self.launcher.start(self.service, environment, self.preload)
            if self.pid is not None:
                return
        if not self.service:
            self.process = await self._execute(environment)
            return
        environment, settings = without_settings(environment)
        read, write = os.pipe()
        try:
            environment[SETTINGS_FD] = str(read)
            self.process = await self._execute(environment, read)
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        await asyncio.to_thread(_write, write, settings)

    async def _execute(self, environment: Mapping[str, str], *passed: int) -> Process:
        """Start it as a program, with these descriptors."""
        kernel = KERNEL_ENDS_CHILDREN
        watched = [] if kernel else python("-m", "searchbus_runtime.parent")
        return await asyncio.create_subprocess_exec(
            *watched,
            *self.command,
            # Elsewhere than on Linux a child ends with this pipe.
            stdin=asyncio.subprocess.DEVNULL if kernel else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            pass_fds=passed,
            # Ctrl-C signals every process of the terminal's group, but we stop them in order.
            start_new_session=True,
            preexec_fn=end_with_parent,
            limit=1024 * 1024,
        )

    async def _follow(self) -> int:
        process = self.process
        assert process is not None
        assert process.stdout is not None
        errors = 0
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # a line longer than the limit
                continue
            if not line:
                break
            text = printable(line.decode(errors="replace").rstrip())
            self._keep(text)
            is_error = _ERROR_LEVEL in text
            errors += is_error
            if self.verbose or (is_error and errors <= SHOWN_ERRORS):
                self._print(text)
        return await process.wait()


def _write(descriptor: int, settings: bytes) -> None:
    # The process may end before it reads them.
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as pipe:
        pipe.write(settings)


class LogFile:
    """Lines of a process. A full file becomes `<name>.1`, so that at most twice the limit is kept.

    Lines that cannot be written, e.g. on a full disk, are counted; the next one that can be says
    how many are missing.

    Args:
        path: its folder must exist.
        max_bytes: of one file.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._last: deque[str] = deque(maxlen=50)
        self._file = path.open("ab", buffering=0)
        self._lost = 0

    def write(self, line: str) -> None:
        """Append a line."""
        self._last.append(line)
        missing = f"({self._lost} lines could not be written)\n" if self._lost else ""
        try:
            self._append(f"{missing}{line}\n".encode(errors="replace"))
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def _append(self, data: bytes) -> None:
        if self._file.tell() > self._max_bytes:
            with suppress(FileNotFoundError):  # renamed already, by an attempt that failed then
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            full, self._file = self._file, self.path.open("ab", buffering=0)
            full.close()
        self._file.write(data)

    def last(self, count: int) -> list[str]:
        """The newest lines that were written here, at most fifty."""
        return list(self._last)[-count:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Processes:
    """The processes of one stack.

    Args:
        on_restart: called after each start of a process of a complete stack.

    Attributes:
        complete: whether all of the stack has started. From then on a service that cannot be kept
            running does not end the stack: the others may work without it.
    """

    def __init__(self, on_restart: Callable[[], None]) -> None:
        self.children: list[Child] = []
        self.complete = False
        self._on_restart = on_restart
        self._kinds: dict[str, Kind] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._one_ended = asyncio.Event()

    def __contains__(self, name: str) -> bool:
        return name in self._keepers

    @property
    def stop_s(self) -> float:
        """Seconds that `stop` takes at most: one kind of processes after the other."""
        return len(_STOPPED_IN_ORDER) * max(child.stop_s for child in self.children)

    def keep(self, child: Child, kind: Kind) -> None:
        """Start a process in the background, and start it again whenever it ends."""
        self.children.append(child)
        self._kinds[child.name] = kind
        keeper = asyncio.get_running_loop().create_task(self._keep(child, kind))
        keeper.add_done_callback(lambda _: self._one_ended.set())
        self._keepers[child.name] = keeper

    async def _keep(self, child: Child, kind: Kind) -> None:
        while True:
            try:
                return await child.keep_running(self._started)
            except GaveUpError as error:
                if kind in _VITAL or not self.complete:
                    raise
                child.say(f"{error} It is started again every {RETRY_S:.0f} s.")
            await asyncio.sleep(RETRY_S)

    def _started(self, _: Child) -> None:
        if self.complete:
            self._on_restart()

    async def wait_until(
        self, done: Callable[[], bool | Awaitable[bool]], *, timeout_s: float, otherwise: str
    ) -> None:
        """Wait for a condition; raises StackError(`otherwise`), or where a process cannot be kept
        running."""
        give_up_s = time.monotonic() + timeout_s
        while True:
            self.raise_for_dead()
            found = done()
            if await found if isinstance(found, Awaitable) else found:
                return
            if time.monotonic() > give_up_s:
                raise StackError(otherwise)
            await asyncio.sleep(_POLL_S)

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for `stop`; raises StackError: a process cannot be kept running."""
        loop = asyncio.get_running_loop()
        events = [loop.create_task(event.wait()) for event in (stop, self._one_ended)]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        for task in events:
            task.cancel()
        self.raise_for_dead()

    def raise_for_dead(self) -> None:
        """Raises StackError where a process could not be kept running."""
        for keeper in self._keepers.values():
            if keeper.done() and not keeper.cancelled():
                error = keeper.exception()
                if isinstance(error, GaveUpError):
                    raise StackError(str(error), code=2 if error.code == 2 else 1)
                if error is not None:
                    raise error

    async def stop(self) -> None:
        """Stop the edges, then the services, then NATS."""
        for child in self.children:
            child.stopping = True
        for kind in _STOPPED_IN_ORDER:
            group = [child for child in self.children if self._kinds[child.name] == kind]
            await asyncio.gather(*(child.stop() for child in group))
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for child in self.children:
            if child.log is not None:
                child.log.close()

"""One child process: its lines go to a log, it is started again when it ends, and it is stopped.

A child gets SIGTERM when its parent ends, so that even `kill -9` of `searchbus up` leaves no
process behind.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from rich.text import Text

from searchbus_runtime.parent import KERNEL_ENDS_CHILDREN, end_with_parent
from searchbus_runtime.secrecy import SETTINGS_FD, public_environment, without_settings
from searchbus_runtime.wording import printable

from .launching import ForkedProcess, Launcher
from .logfile import LogFile
from .output import tell

QUICK_DEATH_S = 10.0
MAX_QUICK_DEATHS = 5
SHOWN_LINES = 8
SHOWN_ERRORS = 3
"""Lines of level error that are printed for each run of a process whose lines only go to the log:
a damaged file of the data folder is seen at the start."""
_ERROR_LEVEL = "[error "
_COLORS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green")


class GaveUp(RuntimeError):
    """A child ended several times in a row right after its start.

    Attributes:
        code: its exit code; 2 says that its settings are wrong.
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
            GaveUp: it ended with code 2 (wrong settings), or five times within ten seconds of its
                start.
        """
        self._deaths_s = []
        while not self.stopping:
            await self._start()
            on_start(self)
            started_s = time.monotonic()
            code = await self._follow()
            if self._is_stopping():
                return
            lived_s = time.monotonic() - started_s
            self._deaths_s = [*self._deaths_s, lived_s][-MAX_QUICK_DEATHS:]
            quick = [lived for lived in self._deaths_s if lived < QUICK_DEATH_S]
            if code == 2 or len(quick) == MAX_QUICK_DEATHS:
                raise GaveUp(f"{self.name} ended with code {code}{self._last_lines()}", code)
            pause_s = min(5.0, 0.2 * 2 ** len(quick)) if lived_s < QUICK_DEATH_S else 0.2
            self.say(f"ended with code {code} after {lived_s:.1f} s; it is started again")
            await asyncio.sleep(pause_s)

    def _is_stopping(self) -> bool:
        return self.stopping

    async def stop(self, timeout_s: float = 15.0) -> None:
        """Send SIGTERM, and SIGKILL if it still runs after `timeout_s`."""
        self.stopping = True
        process = self.process
        if process is None or process.returncode is not None:
            return
        try:
            process.terminate()
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            self.say(f"did not stop within {timeout_s:.0f} s; it is killed")
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
        watched = [] if kernel else [sys.executable, "-m", "searchbus_runtime.parent"]
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

"""A whole stack, started as a user starts it, and commands against it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from .waiting import eventually

SEARCHBUS = Path(sys.executable).with_name("searchbus")
"""The installed command."""
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 150.0
"""More than the `stop_s` of a stack with the defaults."""
_one_command = threading.Lock()


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


def run_command(
    *arguments: object, data: Path | None = None, folder: Path | None = None, typed: str = ""
) -> CommandResult:
    """Run a searchbus command in this process: a process of its own takes a second to start.

    Outside an event loop only; in an async test: `await asyncio.to_thread(stack.command, …)`.

    Args:
        data: becomes SEARCHBUS_DATA_DIR.
        folder: working directory; `None` keeps the present one.
        typed: its standard input.
    """
    from typer.testing import CliRunner

    from searchbus_cli.main import app

    environment = {} if data is None else {"SEARCHBUS_DATA_DIR": str(data)}
    # The runner replaces the standard streams of the whole process.
    with _one_command, contextlib.chdir(folder or Path.cwd()):
        result = CliRunner().invoke(
            app,
            [str(argument) for argument in arguments],
            env=environment,
            input=typed,
            prog_name="searchbus",
        )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)


@dataclass
class Stack:
    """`searchbus up --port 0` on a data folder.

    Args:
        data: made when it is missing; its `up.log` has the output.
        arguments: added to the command line, e.g. `("--scale", "ddg=3")`.
        environment: added to our own.
        folder: its working directory; `--service tests.…` needs the repository's root.
    """

    data: Path
    arguments: tuple[object, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def state(self) -> dict[str, Any]:
        """What the stack wrote into its state file: url, nats_url, processes."""
        found: dict[str, Any] = msgspec.json.decode((self.data / "state.json").read_bytes())
        return found

    @property
    def url(self) -> str:
        """Address of the edge, e.g. http://127.0.0.1:40123."""
        return str(self.state["url"])

    @property
    def log(self) -> str:
        """What it printed so far."""
        return (self.data / "up.log").read_text()

    def start(self, *, wait: bool = True) -> None:
        """Start it and wait until the edge is ready.

        Raises:
            AssertionError: it ended or did not become ready; with its output.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        with (self.data / "up.log").open("wb") as log:
            self.process = subprocess.Popen(
                [SEARCHBUS, "up", "--verbose", "--port", "0", "--data", self.data,
                 *(str(argument) for argument in self.arguments)],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        if wait:
            eventually(self._is_ready, timeout_s=START_TIMEOUT_S, message=lambda: self.log)

    def stop(self) -> int:
        """End it in good order and return its exit code; -9 where it was killed."""
        process = self.process
        assert process is not None, "not started"
        if process.poll() is None:
            process.terminate()
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def command(self, *arguments: object) -> CommandResult:
        """Run a searchbus command against this stack, in this process."""
        return run_command(*arguments, data=self.data, folder=self.folder)

    def spawn(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start a searchbus command against this stack as a process of its own."""
        return subprocess.Popen(
            [SEARCHBUS, *(str(argument) for argument in arguments)],
            env={**os.environ, **self.environment, "SEARCHBUS_DATA_DIR": str(self.data)},
            cwd=self.folder, text=True, **options,
        )  # fmt: skip

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the stack ended:\n{self.log}"
        return (self.data / "state.json").exists()

"""A whole stack, started as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEARCHBUS = Path(sys.executable).with_name("searchbus")


@dataclass
class RunningStack:
    """`searchbus up` on a data folder."""

    data: Path
    process: subprocess.Popen[bytes]

    @property
    def state(self) -> dict:
        return json.loads((self.data / "state.json").read_text())

    @property
    def log(self) -> str:
        return (self.data / "up.log").read_text()

    def command(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a searchbus command against this stack."""
        return subprocess.run(
            [SEARCHBUS, *arguments],
            env={**os.environ, "SEARCHBUS_DATA_DIR": str(self.data), "COLUMNS": "200"},
            capture_output=True, text=True, timeout=timeout_s, cwd=ROOT,
        )  # fmt: skip


@pytest.fixture(scope="session")
def start_stack() -> Iterator[Callable[..., RunningStack]]:
    """Start stacks; whatever still runs at the end is stopped."""
    stacks: list[RunningStack] = []

    def start(data: Path, *arguments: str, wait: bool = True) -> RunningStack:
        data.mkdir(parents=True, exist_ok=True)
        with (data / "up.log").open("wb") as log:
            process = subprocess.Popen(
                [SEARCHBUS, "up", "--port", "0", "--data", data, *arguments],
                stdout=log, stderr=log, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        stack = RunningStack(data, process)
        stacks.append(stack)
        give_up_s = time.monotonic() + 90
        while wait and not (data / "state.json").exists():
            assert process.poll() is None, stack.log
            assert time.monotonic() < give_up_s, stack.log
            time.sleep(0.1)
        return stack

    yield start
    for stack in stacks:
        if stack.process.poll() is None:
            stack.process.terminate()
            stack.process.wait(40)


@pytest.fixture(scope="session")
def stack(start_stack, tmp_path_factory) -> RunningStack:
    """One stack for every test that only reads or adds."""
    return start_stack(tmp_path_factory.mktemp("stack"))

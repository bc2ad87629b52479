"""The reaper ends the groups that are left, and only those."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from searchbus_attach.transports import reaper

COMMAND = [sys.executable, "-I", "-S", reaper.__file__, str(os.getpid())]


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


@pytest.mark.slow
def test_groups_are_ended_with_its_input_unless_they_are_forgotten():
    """One that ended by itself may have given its number to another."""
    watched, forgotten = sleeper(), sleeper()
    subprocess.run(
        COMMAND,
        input=f"+{watched.pid} 9 a\n+{forgotten.pid} 9 b\n-{forgotten.pid}\n",
        text=True, check=True, timeout=300,
    )  # fmt: skip
    assert watched.wait(300) != 0
    assert forgotten.poll() is None
    forgotten.kill()
    forgotten.wait()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes cannot be counted")
def test_a_group_with_too_many_processes_is_killed_and_named():
    """All of its session; another one stays."""
    script = "sleep 600 & sleep 600 & sleep 600 & wait"
    many, few = [subprocess.Popen(["sh", "-c", script], start_new_session=True) for _ in range(2)]
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"+{many.pid} 3 a\n+{few.pid} 4 b\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"{many.pid}\n"
    assert many.wait(300) == -signal.SIGKILL
    assert few.poll() is None
    process.communicate(timeout=300)
    assert few.wait(300) != 0

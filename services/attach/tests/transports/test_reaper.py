"""The reaper ends the groups that are left, and only those."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from searchbus_attach.transports import reaper


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


@pytest.mark.slow
def test_groups_are_ended_with_its_input_unless_they_are_forgotten():
    """One that ended by itself may have given its number to another."""
    watched, forgotten = sleeper(), sleeper()
    subprocess.run(
        [sys.executable, "-I", "-S", Path(reaper.__file__)],
        input=f"+{watched.pid}\n+{forgotten.pid}\n-{forgotten.pid}\n",
        text=True, check=True, timeout=300,
    )  # fmt: skip
    assert watched.wait(300) != 0
    assert forgotten.poll() is None
    forgotten.kill()
    forgotten.wait()

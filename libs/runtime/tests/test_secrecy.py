"""What other processes of this user can read of a process that holds secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux")

HIDES = """
import os, subprocess, sys, time
from searchbus_runtime.secrecy import hide_environment
hide_environment()
print(os.environ["CANARY"], flush=True)
print(subprocess.check_output(["sh", "-c", "echo $CANARY $PATH"], text=True), end="", flush=True)
sys.stdin.read()
"""
# The interpreter may be where another user cannot start it; this is as if that user had started both.
DROPS = """
import ctypes, os
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""
READS = """
import sys
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/{sys.argv[1]}/{name}", "rb").close()
        print(name, "opened")
    except OSError as error:
        print(name, error.strerror)
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "CANARY": "canary-4711"},
    )  # fmt: skip


def test_environment_is_for_the_process_itself():
    """It and its children read every variable; /proc has those that are no secret only."""
    with started(HIDES) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "canary-4711\n"
        assert process.stdout.readline() == f"canary-4711 {os.environ['PATH']}\n"
        shown = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"canary-4711" not in shown
        assert f"PATH={os.environ['PATH']}".encode() in shown
        process.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of another user")
@pytest.mark.parametrize(
    ("holds", "found"),
    [(HIDES, "Permission denied"), (HIDES.replace("hide_environment()\n", "\n"), "opened")],
    ids=["hidden", "as any other process"],
)
def test_other_processes_of_the_user_read_neither_environment_nor_memory(holds, found):
    """Those of root can, unless the kernel confines them."""
    holds = holds.replace("hide_environment\n", f"hide_environment\n{DROPS}", 1)
    with started(holds) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with started(DROPS + READS, str(process.pid)) as reader:
            printed = reader.communicate()[0].splitlines()
        process.communicate()
    assert printed == [f"{name} {found}" for name in ("environ", "mem", "maps")]

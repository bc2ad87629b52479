"""A process that ends when its parent ends."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from searchbus_testing import alive, eventually

CHILD = "import time; print('ready', flush=True); time.sleep(600)"
BY_ITSELF = f"from searchbus_runtime.parent import end_with_parent; end_with_parent(9); {CHILD}"
PARENT = """
import subprocess, sys, time
from searchbus_runtime.parent import end_with_parent
options = {"preexec_fn": end_with_parent} if sys.argv[1] == "preexec" else {}
child = subprocess.Popen([sys.executable, "-c", sys.argv[2]], **options)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is a call of Linux")
@pytest.mark.parametrize(("how", "child"), [("preexec", CHILD), ("itself", BY_ITSELF)])
def test_child_ends_when_its_parent_is_killed(how, child):
    """A killed parent cannot tell its children."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how, child], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    lines = {parent.stdout.readline().strip() for _ in range(2)}
    (pid,) = lines - {"ready"}
    found = psutil.Process(int(pid))
    parent.kill()
    parent.wait()
    eventually(
        lambda: not found.is_running() or found.status() == psutil.STATUS_ZOMBIE, timeout_s=60
    )


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is a call of Linux")
def test_orphans_become_children_of_the_process_that_adopts_them():
    """Only while it does so."""
    program = """
import os, subprocess, sys
from searchbus_runtime.parent import adopt_orphans
grandchild = "import os, time\\nwhile os.getppid() == {between}: time.sleep(.01)\\nprint(os.getppid())"
between = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1].format(between=os.getpid())])"
for adopt in (True, False):
    assert adopt_orphans(adopt)
    parent = subprocess.check_output([sys.executable, "-c", between, grandchild], text=True)
    print(int(parent) == os.getpid())
"""
    found = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert found.split() == ["True", "False"]


WATCHED = [sys.executable, "-m", "searchbus_runtime.parent"]


def watched(*command: str) -> tuple[subprocess.Popen[str], psutil.Process]:
    """A watched process that has started, and its watcher."""
    process = subprocess.Popen(
        [*WATCHED, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    (watcher,) = psutil.Process(process.pid).children()
    return process, watcher


def test_watched_process_ends_with_its_standard_input():
    """Which the kernel closes when the parent ends; the watcher leaves as well."""
    process, watcher = watched(sys.executable, "-c", CHILD)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == -15
    eventually(lambda: not alive([watcher.pid]), timeout_s=60)


def test_watcher_ends_with_the_watched_process():
    """It holds nothing open that a reader of the output waits for."""
    process, watcher = watched(sys.executable, "-c", CHILD)
    process.kill()
    assert process.stdout is not None
    assert process.stdout.read() == ""
    process.wait()
    eventually(lambda: not alive([watcher.pid]), timeout_s=60)

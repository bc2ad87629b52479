"""No process is left behind when pytest is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from searchbus_testing import Stack, alive, descendants, eventually, free_port

CONFTEST = """
from searchbus_testing import watch_this_process

def pytest_sessionstart():
    watch_this_process()
"""
TEST = """
import time
from pathlib import Path
from searchbus_testing import Stack

def test_that_hangs():
    folder = Path(__file__).parent
    Stack(folder / "data").start()
    (folder / "started").touch()
    time.sleep(3600)
"""


def test_process_that_has_ended_is_not_alive():
    """Also before its parent has waited for it, which makes it a zombie until then."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert alive([process.pid, os.getpid()]) == {os.getpid()}
    process.wait()
    assert alive([process.pid]) == set()


_CHAIN = """
import subprocess, sys
below = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(below.pid, flush=True)
input()
"""


def test_descendants_are_found_while_the_clock_moves(monkeypatch):
    """psutil adds the time of the start of the system, which the system may change by a second."""
    times = iter(range(10**6, 0, -1))
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: float(next(times)))
    child = subprocess.Popen(
        [sys.executable, "-c", _CHAIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    try:
        assert {child.pid, grandchild} <= {process.pid for process in descendants(os.getpid())}
        assert [process.pid for process in descendants(child.pid)] == [grandchild]
        assert psutil.Process(child.pid).children() == []  # else this function is not needed
    finally:
        psutil.Process(grandchild).kill()
        child.communicate(b"")


def test_free_ports_differ():
    """A port that was given once is not given again, although nobody took it."""
    ports = [free_port() for _ in range(300)]
    assert len(set(ports)) == 300
    with socket.create_server(("127.0.0.1", ports[0])):
        assert free_port() not in ports


def test_processes_of_one_run_have_ports_of_their_own(monkeypatch):
    """None takes that of a server which another one starts again."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    for number in range(3):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{number}")
        assert {free_port() % 3 for _ in range(30)} == {number}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGTERM, "0"), (signal.SIGKILL, "0"), (signal.SIGKILL, "1")]
)
def test_killed_pytest_leaves_no_process_of_a_stack(tmp_path: Path, number, workers):
    """Neither by SIGTERM nor by SIGKILL, with and without workers of pytest-xdist."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hanging.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    log = tmp_path / "pytest.log"
    with log.open("wb") as file:
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-n", workers, "-p", "no:cacheprovider", tmp_path],
            cwd=tmp_path, stdout=file, stderr=file,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        )  # fmt: skip

    def started() -> bool:
        assert run.poll() is None, log.read_text()
        return (tmp_path / "started").exists()

    eventually(started, timeout_s=600, message=lambda: log.read_text())
    children = {process.pid for process in descendants(run.pid)}
    stack = set(Stack(tmp_path / "data").state["processes"].values())
    assert stack <= children
    run.send_signal(number)
    run.wait()
    eventually(lambda: not alive(children), timeout_s=300)

"""The stdio command: joins a running stack, else starts one, and reports why it could not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from searchbus_edge import stdio
from searchbus_runtime import StackState, write_state


@pytest.fixture
def processes(monkeypatch):
    """Replaces the stack by a short command; returns those started."""
    started = []
    real = subprocess.Popen

    def use(*command: str) -> list[subprocess.Popen[bytes]]:
        def start(arguments, **options):
            assert arguments[1:4] == ["-m", "searchbus_cli", "up"]
            started.append(real(command, **options))
            return started[-1]

        monkeypatch.setattr(stdio.subprocess, "Popen", start)
        return started

    return use


def state(folder):
    return StackState(
        url="http://127.0.0.1:1", nats_url="nats://127.0.0.1:1", data=str(folder), pid=os.getpid()
    )


def test_running_stack_is_joined(tmp_path, processes):
    """No process is started, and the stack is not stopped."""
    started = processes("false")
    write_state(state(tmp_path))
    with stdio._stack(tmp_path) as found:
        assert found.nats_url == "nats://127.0.0.1:1"
    assert started == []


def test_stack_that_ends_is_reported_with_its_log(tmp_path, processes):
    """At once, not after the time limit."""
    processes(sys.executable, "-c", "print('no port is free')")
    with (
        pytest.raises(TimeoutError, match=r"did not start\. See .*stdio\.log"),
        stdio._stack(tmp_path),
    ):
        pass
    assert "no port is free" in (tmp_path / "stdio.log").read_text()


def test_own_stack_is_stopped_at_the_end(tmp_path, processes, monkeypatch):
    """Also where the host ends with an error."""
    started = processes(sys.executable, "-c", "import time; time.sleep(600)")
    states = [None, None, state(tmp_path)]
    monkeypatch.setattr(stdio, "read_state", lambda folder: states.pop(0))
    with pytest.raises(RuntimeError), stdio._stack(tmp_path):
        raise RuntimeError("the host is gone")
    assert started[0].poll() is not None


def test_stack_that_is_slow_is_given_up(tmp_path, processes, monkeypatch):
    """And its process is stopped."""
    started = processes(sys.executable, "-c", "import time; time.sleep(600)")
    monkeypatch.setattr(stdio, "START_TIMEOUT_S", 0.0)
    with pytest.raises(TimeoutError, match="is not up"), stdio._stack(tmp_path):
        pass
    assert started[0].poll() is not None

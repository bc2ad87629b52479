"""How a client joins the stack of a folder, or starts one."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from searchbus_edge.stdio import serving
from searchbus_edge.stdio.serving import NoStackError, StackClient
from searchbus_runtime import StackState, write_state
from searchbus_runtime.state import LOCK_FILE, ClientPipe, make_pipe
from searchbus_testing import eventually

SLEEP = (sys.executable, "-c", "import os; os.set_blocking(0, True)\nwhile os.read(0, 99): pass")


@pytest.fixture
def processes(monkeypatch):
    """Replaces the stack by a short command; returns those started."""
    started = []
    real = subprocess.Popen

    def use(*command: str) -> list[subprocess.Popen[bytes]]:
        def start(arguments, **options):
            assert arguments[1:5] == ["-P", "-m", "searchbus_cli", "up"]
            assert arguments[-1] == "--for-clients"
            place = arguments.index("--host")
            assert arguments[place + 1] == "127.0.0.1"  # whatever the settings say
            started.append(real(command, **options))
            return started[-1]

        monkeypatch.setattr(serving.subprocess, "Popen", start)
        return started

    return use


def state(folder):
    return StackState(
        url="http://127.0.0.1:1", nats_url="nats://127.0.0.1:1", data=str(folder), pid=os.getpid()
    )


def ends(process: subprocess.Popen[bytes]) -> bool:
    return process.returncode is not None


def test_running_stack_is_joined(tmp_path, processes):
    """No process is started; it was started by `up`, and does not count its clients."""
    started = processes("false")
    write_state(state(tmp_path))
    with StackClient(tmp_path, None) as client:
        assert client.join() == state(tmp_path)
        assert not client.owns
    assert started == []


def test_stack_that_counts_its_clients_counts_this_one(tmp_path):
    """With the toolset that it wants, until it leaves."""
    pipe = ClientPipe(make_pipe(tmp_path))
    write_state(state(tmp_path))
    with StackClient(tmp_path, "fomc") as client:
        assert client.find()
        assert client.owns
        assert pipe.read() == ["fomc"]
        # Joined again, after the connection was lost: it never stops counting.
        assert client.find()
        assert pipe.read() == ["fomc"]
    assert pipe.read() is None
    pipe.close()


def test_killed_stack_that_is_still_seen_is_started_again(tmp_path):
    """Its pipe ends before its process is gone; the client does not take it for one that does not
    count its clients, which it would not start."""
    pipe = ClientPipe(make_pipe(tmp_path))
    write_state(state(tmp_path))
    with StackClient(tmp_path, None) as client:
        assert client.find()
        pipe.close()
        assert client.find()
        assert client.owns
        # Another one, by `up`, in its place.
        write_state(replace(state(tmp_path), started="", pid=os.getppid()))
        assert client.find()
        assert not client.owns


def test_stack_that_is_gone_is_not_found(tmp_path):
    """Also while its pipe is still read: it is about to stop."""
    pipe = ClientPipe(make_pipe(tmp_path))
    with StackClient(tmp_path, None) as client:
        assert not client.find()
        assert client.state is None
        assert pipe.read() is None
    pipe.close()


def test_second_client_waits_for_the_stack_of_the_first(tmp_path, processes, monkeypatch):
    """It starts none of its own."""
    started = processes(*SLEEP)
    states: list[StackState | None] = [None]
    monkeypatch.setattr(serving, "read_state", lambda folder: states[0])
    with StackClient(tmp_path, "a") as first, StackClient(tmp_path, "b") as second:
        threads = [threading.Thread(target=client.join) for client in (first, second)]
        for thread in threads:
            thread.start()
        eventually(lambda: started)
        states[0] = state(tmp_path)
        for thread in threads:
            thread.join(60)
        assert first.owns
        assert second.owns
        assert len(started) == 1
    eventually(lambda: ends(started[0]))


def test_stack_that_starts_or_stops_is_waited_for(tmp_path, processes):
    """Its lock says so."""
    started = processes("false")
    with StackClient(tmp_path, None) as client, (tmp_path / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=client.join)
        thread.start()
        eventually(lambda: (tmp_path / "stdio.lock").exists())
        write_state(state(tmp_path))
        thread.join(60)
        assert client.state == state(tmp_path)
    assert started == []


def test_stack_that_claims_the_folder_first_is_joined(tmp_path, processes, monkeypatch):
    """Where `searchbus up` begins in the same moment, the stack of the client ends at once."""
    started = processes("false")
    start = serving.subprocess.Popen
    with StackClient(tmp_path, None) as client, (tmp_path / LOCK_FILE).open("w") as lock:

        def start_after_the_other(*arguments, **options):
            fcntl.flock(lock, fcntl.LOCK_EX)
            return start(*arguments, **options)

        monkeypatch.setattr(serving.subprocess, "Popen", start_after_the_other)
        thread = threading.Thread(target=client.join)
        thread.start()
        eventually(lambda: started and ends(started[0]) and not client.owns)
        write_state(state(tmp_path))
        thread.join(60)
        assert client.state == state(tmp_path)
        assert not client.owns
    assert len(started) == 1


def test_stack_that_ends_is_reported_with_its_log(tmp_path, processes):
    """At once, not after the time limit."""
    processes(sys.executable, "-c", "print('no port is free')")
    with (
        StackClient(tmp_path, None) as client,
        pytest.raises(NoStackError, match=r"did not start\. See .*stdio\.log"),
    ):
        client.join()
    assert "no port is free" in (tmp_path / "stdio.log").read_text()


def test_own_stack_ends_when_the_host_ends_with_an_error(tmp_path, processes, monkeypatch):
    """The pipe is closed in any case."""
    started = processes(*SLEEP)
    states = [None, None, state(tmp_path), state(tmp_path)]
    monkeypatch.setattr(serving, "read_state", lambda folder: states.pop(0))
    with pytest.raises(RuntimeError), StackClient(tmp_path, None) as client:
        client.join()
        raise RuntimeError("the host is gone")
    eventually(lambda: ends(started[0]))


def test_stack_that_is_slow_is_given_up(tmp_path, processes, monkeypatch):
    """And ends."""
    started = processes(*SLEEP)
    monkeypatch.setattr(serving, "START_TIMEOUT_S", 0.0)
    with StackClient(tmp_path, None) as client:
        with pytest.raises(NoStackError, match="is not up"):
            client.join()
        eventually(lambda: ends(started[0]))


def test_client_that_leaves_does_not_wait_for_a_stack(tmp_path, processes):
    """Its host has ended while the stack started."""
    started = processes(*SLEEP)
    failed = []
    with StackClient(tmp_path, None) as client:

        def join() -> None:
            try:
                client.join()
            except NoStackError as fault:
                failed.append(str(fault))

        thread = threading.Thread(target=join)
        thread.start()
        eventually(lambda: started)
        client.leave()
        thread.join(60)
    assert failed == ["The host has ended the connection."]
    eventually(lambda: ends(started[0]))

"""The pipe by which a stack counts its clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from searchbus_runtime.clients import EVERYTHING, ClientPipe, join_clients, make_pipe


@pytest.fixture
def pipe(tmp_path):
    """The stack's end."""
    found = ClientPipe(make_pipe(tmp_path))
    yield found
    found.close()


def test_nobody_joins_where_no_stack_reads(tmp_path):
    """There is no pipe, or one that a stack has left."""
    assert join_clients(tmp_path, None) is None
    os.close(make_pipe(tmp_path))
    assert join_clients(tmp_path, None) is None


def test_toolsets_of_new_clients_are_read(pipe, tmp_path):
    """In their order, each once."""
    clients = [join_clients(tmp_path, toolset) for toolset in ("fomc", None)]
    assert pipe.read() == ["fomc", EVERYTHING]
    assert pipe.read() == []
    for client in clients:
        os.close(client)


def test_end_is_read_when_the_last_client_has_left(pipe, tmp_path):
    """Not before, and another one may come after it."""
    first, second = join_clients(tmp_path, "a"), join_clients(tmp_path, "b")
    os.close(first)
    assert pipe.read() == ["a", "b"]
    os.close(second)
    assert pipe.read() is None
    third = join_clients(tmp_path, "c")
    assert pipe.read() == ["c"]
    os.close(third)


def test_line_that_comes_in_parts_is_read_as_one(tmp_path):
    """A read may end anywhere."""
    pipe = ClientPipe(make_pipe(tmp_path))
    client = os.open(tmp_path / "clients", os.O_WRONLY)
    os.write(client, b"fo")
    assert pipe.read() == []
    os.write(client, b"mc\nwe")
    assert pipe.read() == ["fomc"]
    os.close(client)
    pipe.close()


def test_killed_client_has_left(pipe, tmp_path):
    """The kernel closes its end."""
    program = (
        "import pathlib, sys, time; from searchbus_runtime.clients import join_clients;"
        "join_clients(pathlib.Path(sys.argv[1]), None); print('ready', flush=True); time.sleep(600)"
    )
    client = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    assert pipe.read() == [EVERYTHING]
    client.send_signal(signal.SIGKILL)
    client.wait()
    assert pipe.read() is None


def test_folder_without_a_place_for_the_pipe_is_an_error(tmp_path):
    """With the reason of the system."""
    with pytest.raises(FileNotFoundError):
        make_pipe(tmp_path / "absent")

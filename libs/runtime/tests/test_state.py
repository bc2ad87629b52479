"""How commands find the running stack."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from searchbus_runtime import StackState, data_folder, no_stack, read_state, write_state
from searchbus_runtime.state import (
    EVERYTHING,
    LOCK_FILE,
    ClientPipe,
    UnusableFolderError,
    is_claimed,
    join_clients,
    make_pipe,
    open_data_folder,
    process_started,
)


def state(folder, pid: int) -> StackState:
    return StackState("http://127.0.0.1:1", "nats://127.0.0.1:2", str(folder), pid, {"web": 7})


def test_written_state_is_read(tmp_path):
    """As long as its process is alive."""
    write_state(state(tmp_path, os.getpid()))
    assert state(tmp_path, os.getpid()) == read_state(tmp_path)


def test_state_of_a_process_that_ended_does_not_count(tmp_path):
    """A killed stack leaves its file behind."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write_state(state(tmp_path, ended.pid))
    assert read_state(tmp_path) is None


def test_state_whose_id_another_process_has_does_not_count(tmp_path):
    """The system gives ids again."""
    mine = process_started(os.getpid())
    assert mine
    write_state(replace(state(tmp_path, os.getpid()), started=mine))
    assert read_state(tmp_path) is not None
    write_state(replace(state(tmp_path, os.getpid()), started=f"{mine}0"))
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("has_proc", [True, False])
def test_start_of_a_process_is_its_own_and_empty_after_its_end(monkeypatch, tmp_path, has_proc):
    """By /proc, or by ps where there is no /proc."""
    if not has_proc:
        if shutil.which("ps") is None:
            pytest.skip("there is no ps")
        monkeypatch.setattr("searchbus_runtime.state._OWN_STAT", tmp_path / "missing")
    other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    started = process_started(other.pid)
    assert started
    assert started == process_started(other.pid)
    other.kill()
    other.wait()
    assert process_started(other.pid) == ""


def test_start_of_a_process_is_the_same_in_every_zone_and_language(monkeypatch, tmp_path):
    """The stack wrote it in another shell; `ps` writes a time of day."""
    ps = tmp_path / "ps"
    ps.write_text('#!/bin/sh\necho "$LC_ALL $TZ"\n')
    ps.chmod(0o755)
    monkeypatch.setattr("searchbus_runtime.state._OWN_STAT", tmp_path / "missing")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = set()
    for zone, language in (("Asia/Tokyo", "C"), ("America/Lima", "de_DE.UTF-8")):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("LC_ALL", language)
        found.add(process_started(os.getpid()))
    assert len(found) == 1
    assert found != {""}


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch):
    """As a container runs with a number that no file knows."""
    for name in ("HOME", "XDG_DATA_HOME", "SEARCHBUS_DATA_DIR", "SEARCHBUS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(
        UnusableFolderError, match=r"no home folder\. Name a data folder with --data"
    ):
        data_folder()


@pytest.mark.parametrize("content", [None, "{", "[]", '{"url": "x"}', '{"unknown": 1}'])
def test_missing_or_damaged_file_is_no_stack(tmp_path, content):
    """Commands then say how to start one."""
    if content is not None:
        (tmp_path / "state.json").write_text(content)
    assert read_state(tmp_path) is None


def test_data_folder_is_the_given_one_then_the_named_one_then_the_users(tmp_path, monkeypatch):
    """Absolute, since services run in other folders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEARCHBUS_DATA_DIR", "named")
    assert tmp_path / "given" == data_folder(Path("given"))
    assert tmp_path / "named" == data_folder()
    monkeypatch.delenv("SEARCHBUS_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert tmp_path / "searchbus" == data_folder()
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path / ".local" / "share" / "searchbus" == data_folder()


def test_folder_is_claimed_while_a_stack_holds_its_lock(tmp_path):
    """Also before it has written its state, and while it stops."""
    assert not is_claimed(tmp_path)
    with (tmp_path / LOCK_FILE).open("w") as lock:
        assert not is_claimed(tmp_path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_claimed(tmp_path)
    assert not is_claimed(tmp_path)


def test_data_folder_is_made_with_its_parents(tmp_path):
    """And stays as it is when it is there."""
    folder = tmp_path / "a" / "b"
    assert folder == open_data_folder(folder)
    (folder / "x").write_text("")
    assert folder == open_data_folder(folder)
    assert [path.name for path in folder.iterdir()] == ["x"]


@pytest.mark.parametrize("inside", ["", "folder"])
def test_data_folder_that_is_a_file_is_refused(tmp_path, inside):
    """With the remedy, also where a part of its path is one."""
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UnusableFolderError, match=r"cannot be used \(.*\)\. Choose a folder .*--data"
    ):
        open_data_folder(tmp_path / "file" / inside)


def test_who_finds_no_stack_is_told_what_to_do(tmp_path):
    """It may run on another folder."""
    assert all(part in no_stack(tmp_path) for part in (str(tmp_path), "searchbus up", "--data"))


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
        "import pathlib, sys, time; from searchbus_runtime.state import join_clients;"
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

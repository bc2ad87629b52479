"""How commands find the running stack."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from searchbus_runtime import StackState, data_folder, no_stack, read_state, write_state
from searchbus_runtime.state import LOCK_FILE, UnusableFolder, is_claimed, open_data_folder


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
    with pytest.raises(UnusableFolder, match=r"cannot be used \(.*\)\. Choose a folder .*--data"):
        open_data_folder(tmp_path / "file" / inside)


def test_who_finds_no_stack_is_told_what_to_do(tmp_path):
    """It may run on another folder."""
    assert all(part in no_stack(tmp_path) for part in (str(tmp_path), "searchbus up", "--data"))

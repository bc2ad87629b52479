"""`searchbus down`: what it ends and removes, and what never."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from searchbus_runtime import StackState, write_state
from searchbus_runtime.state import make_pipe
from searchbus_testing import SEARCHBUS, Terminal, eventually, run_command

PROGRAM = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2:] else signal.SIG_DFL)
from searchbus_cli.stack_folder import claim_folder
lock = claim_folder(Path(sys.argv[1]))
Path(sys.argv[1], "claimed").touch()
signal.pause()
"""


class Holder:
    """A process that holds the lock of a folder, as a stack does."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, folder, *arguments])
        eventually((folder / "claimed").exists, message=lambda: "the folder is not locked")
        (folder / "claimed").unlink()

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A data folder with a file of its owner."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("up.lock", "edge.key", "attach.toml", "my-notes.txt"):
        (data / name).touch()
    (data / "qdrant" / "docs").mkdir(parents=True)
    (data / "qdrant" / "docs" / "points").write_text("x" * 1234)
    return data


@pytest.fixture
def stack(folder) -> Iterator[Holder]:
    """A process that has claimed it."""
    holder = Holder(folder)
    yield holder
    holder.end()


def write(folder: Path, pid: int, **rest: Any) -> None:
    """The state file of a stack."""
    write_state(StackState("http://127.0.0.1:1", "", str(folder), pid, **rest))


def test_running_stack_is_ended(folder, stack):
    """And only that: the data stays."""
    write(folder, stack.process.pid)
    done = run_command("down", data=folder)
    assert (done.returncode, done.stdout) == (0, f"stopped the stack on {folder}\n")
    assert stack.process.wait(60) == -15
    assert (folder / "edge.key").exists()


def test_stack_is_waited_for_as_long_as_it_says(folder):
    """It knows the settings of its processes, and the command may have others."""
    stack = Holder(folder, "ignores SIGTERM")
    try:
        write(folder, stack.process.pid, stop_s=0.0)
        done = run_command("down", data=folder)
    finally:
        stack.end()
    assert done.returncode == 1
    assert f"Process {stack.process.pid} did not end within 0 s. See" in done.stderr


def test_stack_of_a_client_is_ended_and_the_client_is_named(folder, stack):
    """It would be up again in a moment, and a person would wonder."""
    write(folder, stack.process.pid)
    pipe = make_pipe(folder)
    try:
        done = run_command("down", data=folder)
    finally:
        os.close(pipe)
    assert done.returncode == 0
    assert "Close the client" in done.stdout


def test_without_a_stack_there_is_nothing_to_do(folder, tmp_path):
    """A folder that is not there yet is the same."""
    for data in (folder, tmp_path / "missing"):
        done = run_command("down", data=data)
        assert (done.returncode, done.stdout) == (0, f"no stack is running on {data}\n")


def test_process_that_got_the_id_of_a_killed_stack_lives_on(folder):
    """The file of a killed stack stays behind; nobody holds its lock."""
    other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        write(folder, other.pid)
        assert run_command("down", data=folder).stdout == f"no stack is running on {folder}\n"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_process_with_another_start_lives_on(folder, stack):
    """Also where a stack holds the lock that has not written its file yet."""
    other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        write(folder, other.pid, started="1")
        done = run_command("down", data=folder)
        assert done.returncode == 1
        assert "Try again in a moment" in done.stderr
        assert (other.poll(), stack.process.poll()) == (None, None)
    finally:
        other.kill()
        other.wait()


def test_purge_removes_what_searchbus_wrote_and_nothing_else(folder):
    """A person's file stays, and is named."""
    done = run_command("down", "--purge", "--yes", data=folder)
    assert done.returncode == 0
    assert "qdrant  1 KB" in done.stdout
    assert "my-notes.txt stays" in done.stdout
    assert [path.name for path in folder.iterdir()] == ["my-notes.txt"]


def test_a_file_that_a_stack_removes_meanwhile_has_no_size(folder, monkeypatch):
    """One that runs rotates its logs while they are listed."""
    walk = os.walk
    monkeypatch.setattr(os, "walk", lambda top: [(p, d, [*f, "gone"]) for p, d, f in walk(top)])
    done = run_command("down", "--purge", "--yes", data=folder)
    assert done.returncode == 0, done.stderr
    assert "qdrant  1 KB" in done.stdout


def test_purge_ends_the_stack_first(folder, stack):
    """A folder in which nothing else is goes away."""
    (folder / "my-notes.txt").unlink()
    write(folder, stack.process.pid)
    assert run_command("down", "--purge", "--yes", data=folder).returncode == 0
    assert stack.process.wait(60) == -15
    assert not folder.exists()


def test_purge_takes_what_the_console_wrote(folder):
    """Copies of dropped files, and judgements: nobody would look for them there."""
    (folder / "my-notes.txt").unlink()
    for name in ("dropped/docs", "judgements/tools"):
        (folder / name).mkdir(parents=True)
    assert run_command("down", "--purge", "--yes", data=folder).returncode == 0
    assert not folder.exists()


def test_links_are_removed_and_not_what_they_lead_to(folder, tmp_path):
    """A person may keep the collections on another disk."""
    disk = tmp_path / "disk"
    (folder / "qdrant").rename(disk)
    (folder / "qdrant").symlink_to(disk)
    assert run_command("down", "--purge", "--yes", data=folder).returncode == 0
    assert (disk / "docs" / "points").exists()
    assert not (folder / "qdrant").is_symlink()


@pytest.mark.parametrize("kind", ["folder", "file", "missing"])
def test_other_folders_are_refused(tmp_path, kind):
    """No stack has run there, so nothing there is searchbus's, whatever its name."""
    data = tmp_path / kind
    if kind == "folder":
        (data / "logs").mkdir(parents=True)
    elif kind == "file":
        data.touch()
    done = run_command("down", "--purge", "--yes", data=data)
    assert done.returncode == 1
    assert "is not a data folder of searchbus" in done.stderr
    assert (data / "logs").exists() == (kind == "folder")


def test_without_a_terminal_nothing_is_removed(folder):
    """Nobody can be asked."""
    done = run_command("down", "--purge", data=folder)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert (folder / "edge.key").exists()


@pytest.mark.parametrize(("answer", "removed"), [("n", False), ("", False), ("y", True)])
def test_a_person_is_asked_on_a_terminal(folder, answer, removed):
    """Nothing is removed but by a yes."""
    command = [SEARCHBUS, "down", "--purge", "--data", folder]
    with Terminal(command) as terminal:
        terminal.expect("edge.key  0 B")
        terminal.expect("Remove this? [y/N]:")
        terminal.send(answer)
        assert (terminal.end() == 0) == removed
    assert (folder / "edge.key").exists() != removed


def test_entries_in_clients_are_removed_on_request(folder, tmp_path, monkeypatch):
    """The lines are shown before; other servers stay."""
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(
        '{\n  "mcpServers": {\n    "searchbus": {"command": "searchbus", "args": ["stdio"]},\n'
        '    "files": {"command": "cat"}\n  }\n}\n'
    )
    done = run_command("down", "--purge", "--clients", "--yes", data=folder)
    assert done.returncode == 0
    assert '-    "searchbus"' in done.stdout
    assert file.read_text() == '{\n  "mcpServers": {\n    "files": {"command": "cat"}\n  }\n}\n'
    assert '"searchbus"' in (file.parent / "mcp.json.bak").read_text()


def test_clients_without_purge_is_refused(folder):
    """A stack that is only stopped may be started by a client again."""
    done = run_command("down", "--clients", data=folder)
    assert done.returncode == 2
    assert "--purge" in done.stderr

"""The data folder of a stack: who has it, and what finds the stack."""

from __future__ import annotations

import fcntl
import os
import stat

import pytest

from searchbus_cli import stack_folder as module
from searchbus_cli.errors import AlreadyRunningError
from searchbus_cli.stack_folder import StateFile, claim_folder
from searchbus_runtime import StackState, read_state, write_state
from searchbus_runtime.state import LOCK_FILE, is_claimed
from searchbus_testing import until


def test_folder_is_made_for_its_owner_and_claimed_until_the_file_is_closed(tmp_path):
    """With the folders above it."""
    data = tmp_path / "a" / "data"
    with claim_folder(data):
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert is_claimed(data)
    assert not is_claimed(data)


def test_second_claim_names_the_stack_that_runs(tmp_path):
    """Where it says in the folder how it is reached."""
    with claim_folder(tmp_path):
        with pytest.raises(AlreadyRunningError, match=f"already running on {tmp_path}. Use it"):
            claim_folder(tmp_path)
        write_state(StackState("http://127.0.0.1:1", "", str(tmp_path), os.getpid()))
        with pytest.raises(
            AlreadyRunningError, match=f"at http://127.0.0.1:1 .process {os.getpid()}"
        ):
            claim_folder(tmp_path)


def test_process_that_only_looks_at_the_lock_does_not_refuse_a_stack(tmp_path, monkeypatch):
    """It shares the lock for a moment, which a busy machine makes longer than a stack is waited for."""
    lock, pauses = (tmp_path / LOCK_FILE).open("w"), []
    fcntl.flock(lock, fcntl.LOCK_SH)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2 * module._LOCK_ATTEMPTS:
            lock.close()

    monkeypatch.setattr(module.time, "sleep", pause)
    claim_folder(tmp_path).close()


async def test_state_that_cannot_be_written_is_written_later(tmp_path, monkeypatch, capsys):
    """A full disk does not end a stack."""
    write, failures = module.write_state, [OSError(28, "No space left on device")] * 3

    def failing(state: StackState) -> None:
        if failures:
            raise failures.pop()
        write(state)

    monkeypatch.setattr(module, "write_state", failing)
    monkeypatch.setattr(module, "_WRITE_AGAIN_S", 0.01)
    file = StateFile(tmp_path)
    file.write(StackState("http://127.0.0.1:1", "", str(tmp_path), 1))
    await until(lambda: read_state(tmp_path) is not None, timeout_s=60)
    said = capsys.readouterr().err
    assert "state.json cannot be written (No space left on device)" in said
    assert "state.json was written after 3 failed attempts" in said


async def test_file_that_was_removed_is_not_written_again(tmp_path, monkeypatch):
    """An attempt that waits is given up; removing twice is harmless."""

    def failing(_: StackState) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_state", failing)
    file = StateFile(tmp_path)
    file.write(StackState("", "", str(tmp_path), 1))
    waiting = file._again
    file.remove()
    file.remove()
    assert waiting is not None
    assert waiting.cancelled()

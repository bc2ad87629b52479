"""The state file of a stack."""

from __future__ import annotations

from searchbus_cli import state_file as module
from searchbus_cli.state_file import StateFile
from searchbus_runtime import StackState, read_state
from searchbus_testing import until


async def test_state_that_cannot_be_written_is_written_later(tmp_path, monkeypatch, capsys):
    """A full disk does not end a stack."""
    write, failures = module.write_state, [OSError(28, "No space left on device")] * 3

    def failing(state: StackState) -> None:
        if failures:
            raise failures.pop()
        write(state)

    monkeypatch.setattr(module, "write_state", failing)
    monkeypatch.setattr(module, "WRITE_AGAIN_S", 0.01)
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

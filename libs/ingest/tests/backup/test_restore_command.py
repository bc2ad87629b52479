"""The last steps of a restore; the whole is in tests/processes/test_backup.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from searchbus_cli.stack_folder import claim_folder, restored
from searchbus_ingest.backup.restore_command import _exchange


def test_a_restore_that_is_killed_between_its_renames_is_finished(tmp_path, monkeypatch, capsys):
    """By whoever claims the folder next, who says so; what was there is beside it."""
    folder, draft = tmp_path / "data", tmp_path / ".data.restoring"
    for path in (folder, draft):
        path.mkdir()
        (path / "keys.json").write_text(path.name)
    rename = Path.rename

    def killed(path: Path, target: Path) -> Path:
        if target == folder:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        _exchange(draft, folder, keep=True)
    monkeypatch.undo()
    claim_folder(folder).close()
    assert (folder / "keys.json").read_text() == ".data.restoring"
    (kept,) = tmp_path.glob("data.before-*")
    assert (kept / "keys.json").read_text() == "data"
    assert "interrupted restore" in capsys.readouterr().err


def test_a_restore_that_is_killed_before_its_renames_does_not_come_back(tmp_path):
    """Not even when the folder is deleted later."""
    folder = tmp_path / "data"
    for path in (folder, restored(folder)):
        path.mkdir()
        (path / "keys.json").write_text(path.name)
    claim_folder(folder).close()
    assert not restored(folder).exists()
    assert (folder / "keys.json").read_text() == "data"

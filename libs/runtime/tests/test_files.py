"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from searchbus_runtime.files import file_stamp, locked, write_atomically


@pytest.mark.parametrize("data", ["grüße\n", "grüße\n".encode()])
def test_text_and_bytes_replace_the_old_content(tmp_path, data):
    """Text is UTF-8; nothing but the file is left in the folder."""
    path = tmp_path / "state.json"
    path.write_text("old, and longer than the new content")
    write_atomically(path, data)
    assert path.read_text(encoding="utf-8") == "grüße\n"
    assert [path] == list(tmp_path.iterdir())


def test_mode_is_set_exactly(tmp_path):
    """The umask does not take part, and the mode of an older file does not stay."""
    path = tmp_path / "keys.json"
    path.touch(0o644)
    write_atomically(path, "secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_atomically(path, "public", mode=0o666)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_writes_belongs_to_the_owner_of_the_file_or_folder(tmp_path):
    """Compose's keys are written by root for services that run as another user."""
    folder = tmp_path / "keys"
    folder.mkdir()
    os.chown(folder, 65532, 65533)
    old = folder / "old"
    old.touch()
    os.chown(old, 65530, 65531)
    for path, owner in ((old, (65530, 65531)), (folder / "new", (65532, 65533))):
        write_atomically(path, "secret", mode=0o600)
        status = path.stat()
        assert (status.st_uid, status.st_gid) == owner
        assert stat.S_IMODE(status.st_mode) == 0o600


def test_without_a_mode_the_umask_decides(tmp_path):
    """As for any other new file."""
    (tmp_path / "other").write_text("")
    write_atomically(tmp_path / "file", "x")
    assert (tmp_path / "other").stat().st_mode == (tmp_path / "file").stat().st_mode


def test_failed_write_keeps_the_old_content(tmp_path, monkeypatch):
    """No draft stays behind either."""
    path = tmp_path / "file"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [path] == list(tmp_path.iterdir())


def test_missing_folder_is_an_error(tmp_path):
    """The caller decides where folders are made."""
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "file", "x")


def test_the_stamp_changes_with_the_content_and_with_who_may_read_it(tmp_path):
    """A file that could not be read is read again when its permissions change."""
    path = tmp_path / "state.json"
    assert file_stamp(path) is None
    path.write_text("one")
    first = file_stamp(path)
    assert file_stamp(path) == first
    path.chmod(0)
    unreadable = file_stamp(path)
    write_atomically(path, "two", mode=0o600)
    assert len({first, unreadable, file_stamp(path)}) == 3


def test_folder_of_a_lock_is_its_owners_alone(tmp_path):
    """A command may lock a file of the data folder before the first start makes that."""
    before = os.umask(0o022)
    try:
        with locked(tmp_path / "data" / "keys.json"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700

"""Backups on the disk: made whole or not at all, and checked before they are used."""

from __future__ import annotations

import fcntl
import io
import os
import tarfile
from pathlib import Path

import pytest

from searchbus_contracts.codec import encode
from searchbus_ingest.backup.archive import (
    FORMAT,
    MANIFEST,
    Backup,
    BackupError,
    Manifest,
    add_file,
    keep_newest,
    new_backup,
    remove_cut_off,
)

FILES = {
    "files/keys.json": b'{"keys": []}',
    "files/secure/keys.json": b"seeds",
    "files/profiles/hr.toml": b"date_field = 'day'\n",
    "collections/docs.jsonl": b"{}\n" * 400,
}


def make(dest: Path, files: dict[str, bytes] = FILES, **more) -> Path:
    with new_backup(dest) as draft:
        entries = tuple(add_file(draft, path, content) for path, content in files.items())
        manifest = Manifest(
            format=FORMAT, version="0.1.0", protocol="v1", made="now", entries=entries, **more
        )
        add_file(draft, MANIFEST, encode(manifest.signed()))
    return dest


def contents(source: Path) -> dict[str, bytes]:
    """The files of a backup that was checked."""
    with Backup(source) as backup:
        backup.check()
        found = {}
        for entry in backup.manifest.entries:
            with backup.open(entry.path) as file:
                found[entry.path] = file.read()
        return found


def changed(source: Path, path: str, content: bytes | None) -> Path:
    """The backup with another content of one file; None: without it."""
    other = source.with_name("changed")
    with tarfile.open(source) as tar, tarfile.open(other, "w") as made:
        members = {member.name: tar.extractfile(member).read() for member in tar}
        for name, body in {**members, path: content}.items():
            if body is not None:
                member = tarfile.TarInfo(name)
                member.size = len(body)
                made.addfile(member, io.BytesIO(body))
    return other


@pytest.fixture
def source(tmp_path) -> Path:
    return make(tmp_path / "backup.tar")


def test_backup_is_read_as_it_was_made(source):
    """For its owner only, and there is nothing beside it."""
    assert contents(source) == FILES
    assert [path.name for path in source.parent.iterdir()] == [source.name]
    assert source.stat().st_mode & 0o077 == 0


def test_backup_that_was_cut_off_is_none(tmp_path):
    """The next one to the same place removes what is left of it."""
    dest = tmp_path / "backup"
    with pytest.raises(KeyboardInterrupt), new_backup(dest) as draft:
        add_file(draft, "files/keys.json", b"x")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    left = tmp_path / ".backup.partial"  # as after kill -9
    left.mkdir()
    (left / "old").touch()
    with pytest.raises(BackupError, match="not a backup"), Backup(left):
        pass
    assert contents(make(dest)) == FILES


def test_nothing_is_written_over(source, tmp_path):
    """Nor by two at once."""
    with pytest.raises(BackupError, match="there already"), new_backup(source):
        pass
    with pytest.raises(BackupError, match="no folder"), new_backup(tmp_path / "none" / "b"):
        pass
    with (
        new_backup(tmp_path / "b"),
        pytest.raises(BackupError, match="Another backup"),
        new_backup(tmp_path / "b"),
    ):
        pass


@pytest.mark.parametrize("path", [*FILES, MANIFEST])
def test_flipped_byte_and_missing_file_are_found(source, path):
    """Each names the file."""
    with Backup(source) as backup, backup.open(path) as file:
        original = file.read()
    for place in {0, len(original) // 2, len(original) - 1}:
        flipped = bytearray(original)
        flipped[place] ^= 1
        with pytest.raises(BackupError, match=r"damaged|newer"):
            contents(changed(source, path, bytes(flipped)))
    with pytest.raises(BackupError, match="damaged"):
        contents(changed(source, path, original[:-1]))
    with pytest.raises(BackupError, match=f"{path} is missing|no {MANIFEST}"):
        contents(changed(source, path, None))


def test_any_change_of_a_tar_file_is_found_or_changes_nothing(source):
    """A byte in every part of it, headers too; and every length that it may be cut to."""
    original = source.read_bytes()
    harmless = 0
    for place in range(0, len(original), 97):
        flipped = bytearray(original)
        flipped[place] ^= 0x40
        source.write_bytes(flipped)
        try:
            assert contents(source) == FILES
            harmless += 1
        except BackupError:
            pass
    assert harmless < len(original) // 97  # padding
    for length in range(0, len(original) - 10_240, 512):
        source.write_bytes(original[:length])
        with pytest.raises(BackupError):
            contents(source)


def test_other_files_are_refused(tmp_path, source):
    """A backup cannot bring a file of another name."""
    unknown = make(tmp_path / "unknown", {**FILES, "files/up.sh": b"rm"})
    with pytest.raises(BackupError, match=r"up\.sh is not a file of a backup"):
        contents(unknown)
    with pytest.raises(BackupError, match="more is not in the manifest"):
        contents(changed(source, "files/more", b"x"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../evil", tarfile.REGTYPE),
        ("files/../../evil", tarfile.REGTYPE),
        ("/tmp/evil", tarfile.REGTYPE),
        ("files/keys.json", tarfile.SYMTYPE),
        ("files/keys.json", tarfile.LNKTYPE),
        ("files/pins.json", tarfile.FIFOTYPE),
        ("files/pins.json", tarfile.CHRTYPE),
        (MANIFEST, tarfile.REGTYPE),
    ],
)
def test_tar_members_that_lead_elsewhere_are_refused(source, name, kind):
    """Before anything is read of the archive."""
    with tarfile.open(source, "a:") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member, io.BytesIO())
    with pytest.raises(BackupError, match="Nothing was changed"):
        contents(source)
    assert not os.path.lexists("/tmp/evil")


def test_backup_of_a_newer_release_is_refused(tmp_path):
    """It names the release that can restore it."""
    with new_backup(tmp_path / "b") as draft:
        newer = Manifest(format=FORMAT + 1, version="9.0", protocol="v2", made="", entries=())
        add_file(draft, MANIFEST, encode(newer.signed()))
    with pytest.raises(BackupError, match=r"9\.0"):
        contents(tmp_path / "b")


@pytest.mark.parametrize("content", [b"", b"not a tar", os.urandom(20_000)])
def test_other_files_are_no_backup(tmp_path, content):
    """It says so."""
    (tmp_path / "b").write_bytes(content)
    with pytest.raises(BackupError, match="not a backup"):
        contents(tmp_path / "b")
    with pytest.raises(BackupError, match="There is no file"):
        contents(tmp_path / "absent")
    with pytest.raises(BackupError, match=r"is a folder, not a backup"):
        contents(tmp_path)


def test_newest_dated_backups_are_kept(tmp_path):
    """Others in the folder stay; what a killed command left is removed, unless it still runs."""
    for day in range(1, 6):
        (tmp_path / f"searchbus-2026010{day}T020000Z.tar").touch()
    (tmp_path / "by-hand.tar").touch()
    for name in ("searchbus-20260101T030000Z.tar", "searchbus-20260102T030000Z.tar"):
        (tmp_path / f".{name}.lock").touch()
        (tmp_path / f".{name}.partial").mkdir()
        (tmp_path / f".{name}.partial.tar").touch()
    with (tmp_path / ".searchbus-20260102T030000Z.tar.lock").open() as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        remove_cut_off(tmp_path)
        keep_newest(tmp_path, 2)
    running_one = ".searchbus-20260102T030000Z.tar"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"{running_one}{end}" for end in (".lock", ".partial", ".partial.tar")),
        "by-hand.tar",
        "searchbus-20260104T020000Z.tar",
        "searchbus-20260105T020000Z.tar",
    ]

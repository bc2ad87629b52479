"""What `searchbus backup` makes of the replies of the service, and which files it copies."""

from __future__ import annotations

import errno
import io

import pytest
import typer

from searchbus_contracts.ingest import CollectionCopy, ExportReply, PointCopy
from searchbus_ingest.backup import backup_command as module
from searchbus_ingest.backup.archive import Manifest, new_backup
from searchbus_ingest.backup.backup_command import _copy_files, _Written

COPY = CollectionCopy(fields={}, model="m", dimensions=4)


def reply(*names: str, **more) -> ExportReply:
    points = tuple(PointCopy(id=name, payload={}) for name in names)
    return ExportReply(collection=COPY, points=points, **more)


def written(*replies: ExportReply) -> tuple[list[str], int]:
    file = io.BytesIO()
    found = _Written(file)
    for one in replies:
        found.add(one)
    lines = file.getvalue().decode().splitlines()
    assert found.points == len(lines)
    return [line.split('"')[3] for line in lines], found.documents


def test_document_over_several_replies_is_whole():
    """The points of each reply follow those before."""
    names, documents = written(
        reply("a", "b1", documents=1, unfinished=1), reply("b2", unfinished=1),
        reply("b3", "c", documents=2),
    )  # fmt: skip
    assert (names, documents) == (["a", "b1", "b2", "b3", "c"], 3)


def test_what_came_of_a_replaced_document_is_dropped():
    """Also where the new one is large, or replaced again; those before it stay."""
    names, _ = written(
        reply("a", "b1", unfinished=1), reply("b2", unfinished=1),
        reply("B1", unfinished=1, restarted=True), reply("B2", unfinished=1),
        reply("β", "c", restarted=True),
    )  # fmt: skip
    assert names == ["a", "β", "c"]
    names, _ = written(reply("a", "b", unfinished=1), reply("c", restarted=True))
    assert names == ["a", "c"]


def test_files_are_copied_from_where_the_settings_have_them(tmp_path, monkeypatch):
    """What is outside of the data folder says so; what is missing is no fault."""
    folder, elsewhere = tmp_path / "data", tmp_path / "etc"
    (folder / "secure").mkdir(parents=True)
    (elsewhere / "profiles").mkdir(parents=True)
    (folder / "keys.json").write_text("own keys")
    (folder / "secure" / "keys.json").write_text("seeds")
    (elsewhere / "pins.json").write_text("pins")
    (elsewhere / "profiles" / "hr.toml").write_text("")
    monkeypatch.setenv("SEARCHBUS_PINS_FILE", str(elsewhere / "pins.json"))
    monkeypatch.setenv("SEARCHBUS_PROFILE_DIR", str(elsewhere / "profiles"))
    with new_backup(tmp_path / "b") as draft:
        found = {entry.name: entry.origin for entry in _copy_files(draft, folder)}
        assert (draft / "files" / "pins.json").read_text() == "pins"
        assert (draft / "files" / "secure" / "keys.json").stat().st_mode & 0o777 == 0o600
    assert found == {
        "keys.json": "",
        "secure/keys.json": "",
        "pins.json": str(elsewhere / "pins.json"),
        "profiles/hr.toml": str(elsewhere / "profiles" / "hr.toml"),
    }


OLD = "searchbus-20260101T020000Z.tar"


def test_a_backup_that_lacks_collections_takes_the_place_of_none(tmp_path, monkeypatch):
    """Else a damaged collection would soon be in no backup."""

    async def fill(*_: object) -> Manifest:
        found = Manifest(
            format=1, version="1", protocol="v1", made="", entries=(), left_out=("rivers",)
        )
        return found.signed()

    monkeypatch.setattr(module, "find_bus", lambda folder: folder)
    monkeypatch.setattr(module, "_fill", fill)
    (tmp_path / OLD).touch()
    (tmp_path / f"{OLD}.incomplete.tar").touch()  # but that of an earlier one
    with pytest.raises(typer.Exit):
        module.backup(tmp_path, keep=1)
    kept, lacking = sorted(tmp_path.glob("searchbus-*.tar"))
    assert (kept.name, lacking.suffixes) == (OLD, [".tar", ".incomplete", ".tar"])
    assert lacking.name != f"{OLD}.incomplete.tar"


def test_what_was_cut_off_does_not_fill_the_disk_for_ever(tmp_path, monkeypatch):
    """It is removed before the next backup is written, which may need its place."""

    async def fill(*_: object) -> Manifest:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "find_bus", lambda folder: folder)
    monkeypatch.setattr(module, "_fill", fill)
    (tmp_path / f".{OLD}.lock").touch()
    (tmp_path / f".{OLD}.partial").mkdir()
    with pytest.raises(typer.Exit):
        module.backup(tmp_path, keep=1)
    assert list(tmp_path.iterdir()) == []

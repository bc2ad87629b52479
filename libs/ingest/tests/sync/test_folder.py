"""Folders: how changes are seen."""

from __future__ import annotations

import os

import pytest

from searchbus_ingest.sync import source as module
from searchbus_ingest.sync.source import FolderSource, SourceUnreadableError


@pytest.fixture
def notes(tmp_path):
    for name in ("a.md", "b.txt"):
        (tmp_path / name).write_text("Whales sing.")
    return tmp_path


async def stamps(source):
    return {entry.name: entry.stamp for entry in (await source.entries("")).entries}


async def test_file_that_has_just_changed_has_no_stamp(notes):
    """It may change again within one tick of the clock."""
    assert await stamps(FolderSource(notes)) == {"a.md": "", "b.txt": ""}


async def test_stamp_changes_with_content_also_of_the_same_size_and_time(notes, monkeypatch):
    """As an editor or rsync may leave them."""
    monkeypatch.setattr(module, "_FRESH_NS", 0)
    before = await stamps(FolderSource(notes))
    assert before == await stamps(FolderSource(notes))
    status = (notes / "a.md").stat()
    (notes / "a.md").write_text("Whales dive.")
    os.utime(notes / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    after = await stamps(FolderSource(notes))
    assert before["a.md"] != after["a.md"]
    assert before["b.txt"] == after["b.txt"] != ""


async def test_globs_limit_what_is_read(notes):
    """As those of an ingest."""
    assert list(await stamps(FolderSource(notes, ("*.md",)))) == ["a.md"]
    assert list(await stamps(FolderSource(notes / "b.txt"))) == ["b.txt"]


async def test_folder_that_is_away_cannot_be_read(tmp_path):
    """The message names it."""
    with pytest.raises(SourceUnreadableError, match="nothing: No such file"):
        await FolderSource(tmp_path / "nothing").entries("")


async def test_folder_below_that_cannot_be_listed_is_named(notes, monkeypatch):
    """Also where globs limit what is read: its documents are not gone."""
    (notes / "sub").mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path).rstrip("/").endswith("sub"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    for globs in ((), ("*.md",)):
        listing = await FolderSource(notes, globs).entries("")
        assert [item.origin for item in listing.skipped] == ["sub/"]

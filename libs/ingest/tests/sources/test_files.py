"""Files and folders."""

from __future__ import annotations

from searchbus_ingest.sources.files import read_path


def test_folder_is_walked_in_order_by_globs(tmp_path):
    """`*` stays within a folder, `**` crosses; hidden and built folders are left out."""
    for name in ("b.md", "a.md", "sub/c.md", "sub/deep/d.md", ".git/e.md", "node_modules/x/f.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n\nText.\n")

    def names(*include):
        return [item.origin for item in read_path(tmp_path, "c", include=include)]

    assert names() == ["a.md", "b.md", "sub/c.md", "sub/deep/d.md"]
    assert names("*.md") == ["a.md", "b.md"]
    assert names("sub/*.md") == ["sub/c.md"]
    assert names("**/*.md") == names()


def test_single_file_and_unknown_kinds(tmp_path):
    """A title comes from the first heading, else from the name; an unknown kind is reported."""
    (tmp_path / "a.md").write_text("Intro.\n\n# Whales\n\nThey sing.\n")
    (tmp_path / "b.txt").write_text("They sing.")
    (tmp_path / "c.xyz").write_text("They sing.")
    titles = [
        item.document.title
        for name in ("a.md", "b.txt")
        for item in read_path(tmp_path / name, "c")
    ]
    assert titles == ["Whales", "b"]
    (item,) = read_path(tmp_path / "c.xyz", "c")
    assert "unknown file type" in item.problem


def test_unreadable_file_is_reported_and_the_next_one_read(tmp_path):
    """A dangling link, for instance."""
    (tmp_path / "a.md").symlink_to(tmp_path / "gone")
    (tmp_path / "b.md").write_text("They sing.")
    first, second = read_path(tmp_path, "c")
    assert "cannot be read" in first.problem
    assert second.document.metadata == {"path": "b.md"}
    assert second.document.url == (tmp_path / "b.md").as_uri()


def test_files_may_have_any_charset(tmp_path):
    """Named in the page, or detected."""
    page = '<meta charset="windows-1251"><title>Киты</title><p>Песни китов слышны далеко.'
    (tmp_path / "a.html").write_bytes(page.encode("cp1251"))
    (tmp_path / "b.txt").write_bytes("Песни китов слышны далеко в океане.".encode("cp1251"))
    (tmp_path / "c.txt").write_text("﻿Wale singen über große Entfernungen.")
    html, detected, marked = [item.document for item in read_path(tmp_path, "c")]
    assert (html.title, html.text) == ("Киты", "Песни китов слышны далеко.")
    assert detected.text == "Песни китов слышны далеко в океане."
    assert marked.text == "Wale singen über große Entfernungen."

"""Files and folders."""

from __future__ import annotations

import zlib

import pytest

from searchbus_ingest.sources import files
from searchbus_ingest.sources.files import SUFFIXES, read_files, read_path
from searchbus_ingest.sources.item import Reason
from searchbus_ingest.sources.walk import find_files

from .test_docx import BULLET, HEADING, make_docx


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


TEXT = "Die Wale singen über große Entfernungen; café."
CHARSETS = ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"]
FILES = {
    "a.txt": TEXT,
    "a.md": f"# Wale\n\n{TEXT}",
    "a.html": f"<title>Wale</title><p>{TEXT}</p>",
    "a.csv": f'name,text\nWale,"{TEXT}"\n',
    "a.jsonl": f'{{"id": 1, "text": "{TEXT}"}}\n',
}


@pytest.mark.parametrize("charset", CHARSETS)
@pytest.mark.parametrize("name", FILES)
def test_files_may_have_any_charset(tmp_path, name, charset):
    """Of every kind of text."""
    (tmp_path / name).write_bytes(FILES[name].encode(charset))
    (item,) = read_path(tmp_path, "c")
    assert TEXT in item.document.text
    assert item.note is None


@pytest.mark.parametrize("name", FILES)
def test_other_scripts_are_detected(tmp_path, name):
    """In Windows-1251, for instance."""
    text = "Песни китов слышны далеко в океане."
    (tmp_path / name).write_bytes(
        FILES[name].replace(TEXT, text).replace("Wale", "Киты").encode("cp1251")
    )
    (item,) = read_path(tmp_path, "c")
    assert text in item.document.text


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv"])
def test_binary_content_is_skipped(tmp_path, name):
    """Whatever the file's name says."""
    (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(range(256)) * 40))
    (item,) = read_path(tmp_path, "c")
    assert (item.document, item.reason) == (None, Reason.BINARY)
    assert "binary content" in item.problem


def test_lost_bytes_are_noted(tmp_path):
    """A text that has the sign for them itself has lost none."""
    (tmp_path / "a.txt").write_bytes("Größe ".encode() * 100 + b"\xe4\xe4!")
    (tmp_path / "b.txt").write_text("A text about the sign \ufffd, which stands for lost bytes.")
    lost, kept = read_path(tmp_path, "c")
    assert "2 bytes" in lost.note
    assert kept.note is None
    assert lost.document is not None


def test_word_and_csv_become_documents(tmp_path):
    """With their sections, and the names of their columns."""
    (tmp_path / "a.docx").write_bytes(make_docx(f"{HEADING}{BULLET}", "untitled"))
    (tmp_path / "b.csv").write_text("name,song\nWhale,long\n")
    word, table = (item.document for item in read_path(tmp_path, "c"))
    assert (word.title, word.chunks[0].section) == ("Whales", "Whales")
    assert (table.title, table.text) == ("b", "- name: Whale; song: long")


@pytest.mark.parametrize(
    ("page", "title"),
    [("<title>Whales</title>", "Whales"), ("<h1>Songs</h1>", "Songs"), ("<title>Untitled Document</title>", "a"),
     ("", "a"), ("<title>123</title><h1>Songs</h1>", "Songs")],
)  # fmt: skip
def test_page_without_a_usable_title_has_its_headings_or_files(tmp_path, page, title):
    """In this order."""
    (tmp_path / "a.html").write_text(f"{page}<p>They sing.</p>")
    (item,) = read_path(tmp_path, "c")
    assert item.document.title == title


def test_too_large_and_too_complex_files_are_skipped(tmp_path, monkeypatch):
    """Each with its reason."""
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 1024 * 1024)
    (tmp_path / "a.txt").write_text("x" * (1024 * 1024 + 1))
    (tmp_path / "b.html").write_text("<div>" * 40_000 + "deep")
    (tmp_path / "c.md").write_text("They sing.")
    large, deep, good = read_path(tmp_path, "c")
    assert str(large) == "a.txt: the file is larger than 1 MiB, the limit of a file; split it"
    assert (deep.reason, deep.document) == (Reason.TOO_COMPLEX, None)
    assert good.document is not None


def test_file_that_vanishes_after_it_was_found_is_skipped(tmp_path):
    """The next one is read."""
    for name in ("a.md", "b.md", "c.jsonl"):
        (tmp_path / name).write_text('{"id": 1, "text": "They sing."}')
    found = list(find_files(tmp_path, SUFFIXES))
    (tmp_path / "a.md").unlink()
    (tmp_path / "c.jsonl").unlink()
    done: list[str] = []
    first, second, third = read_files(found, "c", on_file=done.append)
    assert (first.reason, third.reason) == (Reason.CHANGED, Reason.CHANGED)
    assert second.document is not None
    assert done == ["a.md", "b.md", "c.jsonl"]

"""Single files and folders, titles, PDF."""

from __future__ import annotations

import zlib

import pytest

from searchbus_fakes.web import pdf_of
from searchbus_ingest.sources import files, pdf
from searchbus_ingest.sources.content import SUFFIXES, usable_title
from searchbus_ingest.sources.files import read_files
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.reading import Reader
from searchbus_ingest.sources.walk import find_files
from searchbus_testing.waiting import work_ends

from ..conftest import read_path
from .test_office import BULLET, HEADING, make_docx


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


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (
            "---\nid: 7\ntitle: 'Whales: a guide'\n---\n\n## Songs\n\nThey sing.\n",
            "Whales: a guide",
        ),
        ('+++\r\ntitle = "Whales"\r\n+++\n# Songs\n', "Whales"),
        ("---\nid: 7\n---\ntitle: no\n\n# Songs\n", "Songs"),
        ("```sh\n# list all\nls\n```\n\n# Songs\n", "Songs"),
        ("Songs of whales\n===============\n\nThey sing.\n", "Songs of whales"),
        ("Whales sing.\n\n## Songs\n", "a"),
    ],
)
def test_title_of_markdown_is_that_of_its_front_matter_or_first_heading(tmp_path, text, title):
    """No comment in code is one."""
    (tmp_path / "a.md").write_text(text)
    (item,) = read_path(tmp_path, "c")
    assert item.document.title == title


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


async def test_file_that_vanishes_after_it_was_found_is_skipped(tmp_path):
    """The next one is read."""
    for name in ("a.md", "b.md", "c.jsonl"):
        (tmp_path / name).write_text('{"id": 1, "text": "They sing."}')
    found = list(find_files(tmp_path, SUFFIXES))
    (tmp_path / "a.md").unlink()
    (tmp_path / "c.jsonl").unlink()
    done: list[str] = []
    items = read_files(found, "c", Reader(), on_file=done.append)
    first, second, third = [item async for item in items]
    assert (first.reason, third.reason) == (Reason.CHANGED, Reason.CHANGED)
    assert second.document is not None
    assert done == ["a.md", "b.md", "c.jsonl"]


@pytest.mark.parametrize(
    "title",
    [None, "", " ", "Microsoft Word - x.doc", "Microsoft PowerPoint - Talk.ppt", "untitled", "Untitled-1",
     "(anonymous)", "Untitled Document", "Document1", "20240131", "12.3", "report_final.docx", "thesis.dvi",
     "PowerPoint Presentation", "No Title", "Seite\ufffd"],
)  # fmt: skip
def test_title_of_a_program_or_placeholder_is_not_used(title):
    """The file's name says more."""
    assert usable_title(title) is None


@pytest.mark.parametrize(
    ("title", "expected"),
    [(" Whales\n sing ", "Whales sing"), ("1984", None), ("Q3 2024", "Q3 2024"), ("鯨の歌", "鯨の歌"),
     ("Index of Whales", "Index of Whales"), ("Untitled songs of whales", "Untitled songs of whales"),
     ("Using Node.js", "Using Node.js")],
)  # fmt: skip
def test_other_titles_stay(title, expected):
    """On one line."""
    assert usable_title(title) == expected


def make_pdf(text: str, title: str = "", bookmarks: tuple[str, ...] = ()) -> bytes:
    """A PDF of one page, written by hand; the bookmarks lead to it."""
    shown = " 0 -30 Td ".join(f"({line}) Tj" for line in text.split("\n"))
    stream = f"BT /F1 24 Tf 72 700 Td {shown} ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 7 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>".encode(),
        f"<< /Type /Outlines /First 8 0 R /Last {7 + len(bookmarks)} 0 R >>".encode(),
    ]
    for number, bookmark in enumerate(bookmarks, 9):
        following = f"/Next {number} 0 R" if number < 8 + len(bookmarks) else ""
        objects.append(
            f"<< /Title ({bookmark}) /Parent 7 0 R /Dest [3 0 R /Fit] {following} >>".encode()
        )
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return body + b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        size, table, size, len(body),
    )  # fmt: skip


def test_bookmarks_of_a_pdf_are_its_headings(tmp_path):
    """Where their lines stand, in order; one whose words are not on its page is none, nor is a
    comment of a shell."""
    text = "1. Songs\nWhales sing of\nRoutes.\n# ls\nRoutes\nThey know the way."
    (tmp_path / "a.pdf").write_bytes(make_pdf(text, "Whales", ("1. Songs", "Ships", "Routes")))
    (item,) = read_path(tmp_path, "c")
    assert item.document.text == (
        "# 1. Songs\n\n\nWhales sing of\nRoutes.\n # ls\n\n\n# Routes\n\n\nThey know the way."
    )
    assert [chunk.section for chunk in item.document.chunks] == ["1. Songs", "Routes"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Day-\nto-day", "Day-to-day"),
        ("A migra-\ntion", "A migration"),
        ("A migration. A mi-\ngration of mi birds", "A migration. A migration of mi birds"),
        ("To use a day, a re-\nuse", "To use a day, a reuse"),
        ("A run time, a run-\ntime", "A run time, a run-time"),
        ("COVID-\n19 in 2021", "COVID-19 in 2021"),
    ],
)
def test_words_that_a_pdf_parts_between_lines_are_whole(text, whole):
    """A hyphen stays where both parts are words of the text, and their whole is none."""
    _, read, _ = pdf.pdf_to_text(make_pdf(text))
    assert " ".join(read.split()) == whole


@pytest.mark.parametrize("unit", ["a", "a\x02", "-", "\x02"])
def test_time_of_joining_words_grows_with_the_text(unit):
    """A page may be one line of letters."""
    work_ends(pdf._without_hyphens, unit, end="\x02")


def test_a_bookmark_with_half_a_character_costs_itself_only():
    """Programs cut titles wherever they like."""
    body = make_pdf("Songs\nWhales sing", "Whales", ("Songs", "0000"))
    for name in (b"(0000)", b"(Whales)"):
        assert body.count(name) == 1
        body = body.replace(name, b"<d83d>" if len(name) == 6 else b"<FEFFD8>")
    title, text, _ = pdf.pdf_to_text(body)
    assert (title, text.split()) == ("", ["#", "Songs", "Whales", "sing"])


def test_pdf_and_broken_pdf(tmp_path):
    """A page's text is read; another file is reported."""
    (tmp_path / "a.pdf").write_bytes(make_pdf("Whales sing"))
    (tmp_path / "b.pdf").write_bytes(b"not a pdf")
    items = {item.origin: item for item in read_path(tmp_path, "c")}
    assert items["a.pdf"].document.text == "Whales sing"
    assert "not a readable PDF" in items["b.pdf"].problem


def test_page_of_a_pdf_that_cannot_be_read_costs_itself_only(tmp_path):
    """A note says which; a PDF without any other page is broken."""
    whole = pdf_of("Whales sing")
    two = whole.replace(b"/Kids [3 0 R] /Count 1", b"/Kids [9 0 R 3 0 R] /Count 2")
    (tmp_path / "a.pdf").write_bytes(two)
    (item,) = read_path(tmp_path, "c")
    assert (item.document.text, item.note) == ("Whales sing", "page 1 cannot be read")
    (tmp_path / "a.pdf").write_bytes(whole.replace(b"/Kids [3 0 R]", b"/Kids [9 0 R]"))
    (item,) = read_path(tmp_path, "c")
    assert "not a readable PDF" in item.problem


def test_too_long_pdf_is_refused(monkeypatch):
    """By its number of pages."""
    monkeypatch.setattr(pdf, "MAX_PAGES", 0)
    with pytest.raises(SkipError, match="more than 0 pages, the limit of a PDF; split it"):
        pdf.pdf_to_text(make_pdf("Whales sing"))


def test_pdf_without_text_is_a_scan():
    """The problem says what to do."""
    with pytest.raises(SkipError, match="OCR"):
        pdf.pdf_to_text(make_pdf(""))


@pytest.mark.parametrize(
    ("title", "expected"), [("Whales", "Whales"), ("", "a"), ("Microsoft Word - x.doc", "a")]
)
def test_pdf_without_a_usable_title_has_its_files(tmp_path, title, expected):
    """Word writes its own name into the title."""
    (tmp_path / "a.pdf").write_bytes(make_pdf("Whales sing", title))
    (item,) = read_path(tmp_path, "c")
    assert item.document.title == expected

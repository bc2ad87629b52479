"""PDF to text."""

from __future__ import annotations

import pytest

from searchbus_ingest.sources import pdf
from searchbus_ingest.sources.files import read_path
from searchbus_ingest.sources.item import SkipError


def make_pdf(text: str, title: str = "") -> bytes:
    """A PDF of one page, written by hand."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        f"<< /Title ({title}) >>".encode(),
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return body + b"xref\n0 7\n0000000000 65535 f \n%strailer << /Size 7 /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table, len(body),
    )  # fmt: skip


def test_pdf_and_broken_pdf(tmp_path):
    """A page's text is read; another file is reported."""
    (tmp_path / "a.pdf").write_bytes(make_pdf("Whales sing"))
    (tmp_path / "b.pdf").write_bytes(b"not a pdf")
    items = {item.origin: item for item in read_path(tmp_path, "c")}
    assert items["a.pdf"].document.text == "Whales sing"
    assert "not a readable PDF" in items["b.pdf"].problem


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

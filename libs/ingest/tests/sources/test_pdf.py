"""PDF to text."""

from __future__ import annotations

import pytest

from searchbus_ingest.sources import pdf
from searchbus_ingest.sources.files import read_path


def make_pdf(text: str) -> bytes:
    """A PDF of one page, written by hand."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return body + b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table, len(body),
    )  # fmt: skip


def test_pdf_and_broken_pdf(tmp_path):
    """A page's text is read; another file is reported."""
    (tmp_path / "a.pdf").write_bytes(make_pdf("Whales sing"))
    (tmp_path / "b.pdf").write_bytes(b"not a pdf")
    items = {item.origin: item for item in read_path(tmp_path, "c")}
    assert items["a.pdf"].document.text == "Whales sing"
    assert "not a readable PDF" in items["b.pdf"].problem


def test_too_long_pdf_is_refused(tmp_path, monkeypatch):
    """By its number of pages."""
    (tmp_path / "a.pdf").write_bytes(make_pdf("Whales sing"))
    monkeypatch.setattr(pdf, "MAX_PAGES", 0)
    with pytest.raises(ValueError, match="more than 0 pages"):
        pdf.pdf_to_text(tmp_path / "a.pdf")

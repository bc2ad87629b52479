"""Word documents to text."""

from __future__ import annotations

import io
import zipfile

import pytest

from searchbus_ingest.sources import docx
from searchbus_ingest.sources.docx import docx_to_text
from searchbus_ingest.sources.item import Reason, SkipError

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def make_docx(body: str, title: str | None = None) -> bytes:
    """A document with the style Heading1 and one list, written by hand."""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f'<w:styles {_W}><w:style w:type="paragraph" w:styleId="Heading1">'
        '<w:name w:val="heading 1"/></w:style></w:styles>',
        "word/numbering.xml": f'<w:numbering {_W}><w:abstractNum w:abstractNumId="0">'
        '<w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
    }
    if title is not None:
        parts["docProps/core.xml"] = (
            '<cp:coreProperties xmlns:cp="x" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>{title}</dc:title></cp:coreProperties>"
        )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return file.getvalue()


HEADING = paragraph("Whales", '<w:pStyle w:val="Heading1"/>')
BULLET = paragraph("They sing.", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
ROW = "<w:tr>{}</w:tr>"
CELL = "<w:tc>{}</w:tc>"


def test_headings_lists_and_tables_are_kept():
    """As Markdown; a row of a table is one line."""
    row = ROW.format(CELL.format(paragraph("José")) + CELL.format(paragraph("Málaga")))
    body = f"{HEADING}{paragraph('Große Wale.')}{BULLET}<w:tbl>{row}</w:tbl>"
    title, text = docx_to_text(make_docx(body, "Songs"))
    assert title == "Songs"
    assert text.split("\n\n") == ["# Whales", "Große Wale.", "- They sing.", "José | Málaga |"]
    assert docx_to_text(make_docx(body))[0] is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"no zip", "not a readable Word document"), (b"\xd0\xcf\x11\xe0" + bytes(100), "without a password"),
     (make_docx("<w:p>"), "not a readable Word document")],
    ids=["no package", "encrypted", "broken"],
)  # fmt: skip
def test_unreadable_document_is_skipped(body, problem):
    """With what is known of it."""
    with pytest.raises(SkipError, match=problem) as caught:
        docx_to_text(body)
    assert caught.value.reason is Reason.UNREADABLE


def test_document_that_unpacks_to_too_much_is_not_unpacked(monkeypatch):
    """A small file may unpack to gigabytes."""
    monkeypatch.setattr(docx, "MAX_XML_BYTES", 100_000)
    with pytest.raises(SkipError, match="the limit of a document; split it") as caught:
        docx_to_text(make_docx(paragraph("x" * 200_000)))
    assert caught.value.reason is Reason.TOO_LARGE

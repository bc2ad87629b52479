"""Word, Excel and PowerPoint files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import pytest

from searchbus_ingest.sources import office, table
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.office import docx_to_text, pptx_to_text, xlsx_to_text

_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
STYLES = """<styleSheet><numFmts><numFmt numFmtId="170" formatCode="dd.mm.yyyy"/></numFmts>
<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/></cellXfs></styleSheet>"""


def package(parts: Mapping[str, str | bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in parts.items():
            out.writestr(name, content)
    return file.getvalue()


def relations(*targets: str) -> str:
    found = "".join(f'<Relationship Id="r{n}" Target="{t}"/>' for n, t in enumerate(targets))
    return f"<Relationships>{found}</Relationships>"


def make_xlsx(rows: str, strings: str = "", **more: str) -> bytes:
    """A workbook of one sheet."""
    return package({
        "xl/workbook.xml": f'<workbook {_R}><sheets><sheet name="Staff" r:id="r0"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations("worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst>{strings}</sst>",
        "xl/styles.xml": STYLES, **more,
    })  # fmt: skip


def make_pptx(*slides: str, notes: str = "", **more: str) -> bytes:
    """A presentation; `notes` of the first slide."""
    ids = "".join(f'<p:sldId r:id="r{n}"/>' for n in range(len(slides)))
    parts = {
        "ppt/presentation.xml": f'<p:presentation xmlns:p="p" {_R}>{ids}</p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(
            *(f"slides/s{n}.xml" for n in range(len(slides)))
        ),
    }
    for number, slide in enumerate(slides):
        parts[f"ppt/slides/s{number}.xml"] = f'<p:sld xmlns:p="p" xmlns:a="a">{slide}</p:sld>'
    if notes:
        parts["ppt/slides/_rels/s0.xml.rels"] = relations("../notesSlides/n.xml")
        parts["ppt/notesSlides/n.xml"] = f'<p:notes xmlns:p="p" xmlns:a="a">{notes}</p:notes>'
    return package(parts | more)


def shape(text: str, kind: str = "body") -> str:
    return f'<p:sp><p:ph type="{kind}"/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sp>'


def test_rows_have_the_names_of_their_columns():
    """Shared texts, dates of both kinds of formats, truth values, gaps."""
    rows = (
        '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>since</t></is></c></row>'
        '<row><c r="A2" t="s"><v>1</v></c><c r="C2" s="1"><v>44562</v></c></row>'
        '<row><c r="A3" t="b"><v>1</v></c><c r="B3"><v>7.5</v></c><c r="C3" s="2"><v>44562.5</v></c></row>'
    )
    title, text = xlsx_to_text(
        make_xlsx(rows, "<si><t>name</t></si><si><r><t>Jo</t></r><r><t>sé</t></r></si>")
    )
    assert title is None
    assert text.split("\n") == [
        "# Staff", "", "- name: José; since: 2022-01-01",
        "- name: true; column 2: 7.5; since: 2022-01-01 12:00:00", "",
    ]  # fmt: skip


def test_a_part_whose_size_was_not_counted_is_not_read():
    """A sheet may have any name, and unpack to any size."""
    parts = {
        "xl/_rels/workbook.xml.rels": relations("worksheets/bomb"),
        "xl/worksheets/bomb": "<a/>",
    }
    with pytest.raises(SkipError, match="unknown type"):
        xlsx_to_text(make_xlsx("", **parts))


def test_a_sheet_of_one_row_is_its_values():
    """There is nothing that the names could name."""
    row = '<row><c t="inlineStr"><is><t>They sing.</t></is></c></row>'
    assert xlsx_to_text(make_xlsx(row))[1] == "# Staff\n\n- column 1: They sing.\n"


def test_slides_are_sections_with_notes():
    """In the order of the presentation; numbers of slides are left out."""
    slides = (
        shape("Whales", "title") + shape("They sing.") + shape("1", "sldNum"),
        shape("Dolphins."),
    )
    _, text = pptx_to_text(make_pptx(*slides, notes=shape("Say it slowly.")))
    assert text.split("\n\n") == [
        "# Whales",
        "They sing.",
        "Say it slowly.",
        "# Slide 2",
        "Dolphins.",
    ]


def test_words_on_two_lines_of_a_slide_are_two():
    """A break between runs is a space."""
    title = shape("Quarterly</a:t></a:r><a:br/><a:r><a:t>results", "title")
    assert pptx_to_text(make_pptx(title))[1] == "# Quarterly results"


CELL = '<c t="s"><v>0</v></c>'
TWO_ROWS = make_xlsx(f"<row>{CELL}</row>" * 2, "<si><t>many</t></si>")


@pytest.mark.parametrize(
    ("module", "limit"),
    [(office, "MAX_CELLS"), (office, "MAX_ROWS"), (table, "MAX_DOCUMENT_BYTES"),
     (office, "_MAX_ELEMENTS")],
)  # fmt: skip
def test_workbook_beyond_a_limit_is_skipped(monkeypatch, module, limit):
    """Cells, rows, one text in many cells, one row of many elements."""
    monkeypatch.setattr(module, limit, 50)
    with pytest.raises(SkipError, match="more than") as caught:
        xlsx_to_text(make_xlsx(f"<row>{CELL * 30}</row>" * 60, "<si><t>many</t></si>"))
    assert caught.value.reason is Reason.TOO_LARGE


def test_names_of_columns_are_counted_with_every_row(monkeypatch):
    """A workbook of a kilobyte would become gigabytes."""
    monkeypatch.setattr(table, "MAX_DOCUMENT_BYTES", 10_000)
    rows = f"<row>{CELL}</row>" + "<row><c><v>1</v></c></row>" * 20
    with pytest.raises(SkipError, match="of text, the limit of a document; split it"):
        xlsx_to_text(make_xlsx(rows, f"<si><t>{'n' * 1000}</t></si>"))


def test_text_in_shapes_within_each_other_is_counted_each_time(monkeypatch):
    """No program writes such."""
    monkeypatch.setattr(table, "MAX_DOCUMENT_BYTES", 10_000)
    nested = "<p:sp>" * 20 + shape("n" * 1000) + "</p:sp>" * 20
    with pytest.raises(SkipError, match="of text, the limit of a document; split it"):
        pptx_to_text(make_pptx(nested))


def test_a_part_is_read_once(monkeypatch):
    """However many sheets or slides lead to it."""
    opened = []
    each = office._each

    def counted(parts, name, tag):
        opened.append(name)
        return each(parts, name, tag)

    monkeypatch.setattr(office, "_each", counted)
    sheets = '<sheet r:id="r0"/>' * 9
    book = f"<workbook {_R}><sheets>{sheets}</sheets></workbook>"
    row = '<row><c t="inlineStr"><is><t>They sing.</t></is></c></row>'
    assert xlsx_to_text(make_xlsx(row, **{"xl/workbook.xml": book}))[1].count("sing") == 1
    assert opened.count("xl/worksheets/sheet1.xml") == 1
    notes = {f"ppt/slides/_rels/s{n}.xml.rels": relations("../notesSlides/n.xml") for n in range(9)}
    notes["ppt/notesSlides/n.xml"] = f"<p:n xmlns:p='p' xmlns:a='a'>{shape('Slowly.')}</p:n>"
    slides = make_pptx(*map(shape, "abcdefghi"), **notes)
    assert pptx_to_text(slides)[1].count("Slowly.") == 1
    assert opened.count("ppt/notesSlides/n.xml") == 1


@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
@pytest.mark.parametrize("read", [xlsx_to_text, pptx_to_text, docx_to_text])
def test_file_with_a_dtd_is_not_read(read, charset):
    """Its entities would expand; behind a long comment it is one too."""
    dtd = f"<!--{' ' * 9000}--><!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"
    text = f"<?xml version='1.0' encoding='{charset}'?>{dtd}".encode(charset)
    with pytest.raises(SkipError, match="a part of it has a DTD"):
        read(package({"any.xml": text}))


def test_list_of_too_many_parts_is_not_read(monkeypatch):
    """Each takes half a kilobyte of memory."""
    monkeypatch.setattr(office, "MAX_PARTS", 4)
    monkeypatch.delattr(zipfile, "ZipFile")
    with pytest.raises(SkipError, match="more than 4 parts"):
        xlsx_to_text(TWO_ROWS)


@pytest.mark.slow
def test_workbook_of_a_million_cells_is_skipped():
    """At the real limit."""
    with pytest.raises(SkipError, match="1,000,000 cells"):
        xlsx_to_text(make_xlsx(("<row>" + "<c><v>1</v></c>" * 1000 + "</row>") * 1001))


@pytest.mark.parametrize("read", [xlsx_to_text, pptx_to_text])
def test_file_that_unpacks_to_too_much_is_not_unpacked(monkeypatch, read):
    """As of Word documents."""
    monkeypatch.setattr(office, "MAX_XML_BYTES", 1000)
    for body in (make_xlsx(" " * 2000), make_pptx(" " * 2000)):
        with pytest.raises(SkipError, match="unpack to more than"):
            read(body)


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"no zip", "not readable as"), (b"\xd0\xcf\x11\xe0", "without a password"),
     (package({}), "not readable as"), (make_xlsx("<row>"), "not readable as"),
     (make_xlsx("<a>" * 600 + "</a>" * 600), "elements"),
     (make_xlsx('<row><c t="s"><v>9</v></c></row>'), "not readable as")],
    ids=["no package", "encrypted", "empty", "broken", "deep", "no such text"],
)  # fmt: skip
def test_unreadable_workbook_is_skipped(body, problem):
    """With what is known of it."""
    with pytest.raises(SkipError, match=problem):
        xlsx_to_text(body)


def test_presentation_of_too_many_slides_is_skipped(monkeypatch):
    """Before they are read."""
    monkeypatch.setattr(office, "MAX_SLIDES", 1)
    with pytest.raises(SkipError, match="slides"):
        pptx_to_text(make_pptx(shape("a"), shape("b")))


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
TABLE_CELL = "<w:tc>{}</w:tc>"


def test_text_of_a_word_document_in_a_part_of_another_type_is_not_read():
    """Its size was not counted: a small file may unpack to gigabytes."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(make_docx(HEADING))) as parts,
        zipfile.ZipFile(made, "w") as moved,
    ):
        for name in parts.namelist():
            content = parts.read(name).replace(b"word/document.xml", b"word/document.bin")
            moved.writestr(name.replace("document.xml", "document.bin"), content)
    with pytest.raises(SkipError, match="not readable as a Word document"):
        docx_to_text(made.getvalue())


def test_headings_lists_and_tables_are_kept():
    """As Markdown; a row of a table is one line."""
    row = ROW.format(TABLE_CELL.format(paragraph("José")) + TABLE_CELL.format(paragraph("Málaga")))
    body = f"{HEADING}{paragraph('Große Wale.')}{BULLET}<w:tbl>{row}</w:tbl>"
    title, text = docx_to_text(make_docx(body, "Songs"))
    assert title == "Songs"
    assert text.split("\n\n") == ["# Whales", "Große Wale.", "- They sing.", "| José | Málaga |"]
    assert docx_to_text(make_docx(body))[0] is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b"no zip", "not readable as a Word document"), (b"\xd0\xcf\x11\xe0" + bytes(100), "without a password"),
     (make_docx("<w:p>"), "not readable as a Word document")],
    ids=["no package", "encrypted", "broken"],
)  # fmt: skip
def test_unreadable_document_is_skipped(body, problem):
    """With what is known of it."""
    with pytest.raises(SkipError, match=problem) as caught:
        docx_to_text(body)
    assert caught.value.reason is Reason.UNREADABLE


def test_document_that_unpacks_to_too_much_is_not_unpacked(monkeypatch):
    """A small file may unpack to gigabytes."""
    monkeypatch.setattr(office, "MAX_XML_BYTES", 100_000)
    with pytest.raises(SkipError, match="the limit of a document; split it") as caught:
        docx_to_text(make_docx(paragraph("x" * 200_000)))
    assert caught.value.reason is Reason.TOO_LARGE

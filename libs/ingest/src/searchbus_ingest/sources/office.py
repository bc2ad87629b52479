"""Word, Excel and PowerPoint files to text: zipped XML, read within limits.

A small file may unpack to gigabytes, and one shared text may stand in a million cells.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import IO, Any
from xml.etree import ElementTree
from xml.parsers import expat

from searchbus_pages import read_html

from .item import Reason, SkipError
from .table import MAX_ROWS, TextBudget, row_line

MAX_XML_BYTES = 64 * 1024 * 1024
"""All parts, unpacked."""
MAX_PARTS = 100_000
_LISTED = b"PK\x01\x02"
"""How the entry of each part in the list of them begins."""
_OLE = b"\xd0\xcf\x11\xe0"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def docx_to_text(body: bytes) -> tuple[str | None, str]:
    """The title, and the text as Markdown, without pictures.

    Raises:
        SkipError: no Word document, encrypted, or too large when unpacked.
    """
    return _read(body, "a Word document", ".docx", _document)


def _document(parts: zipfile.ZipFile) -> str:
    import mammoth  # slow to import, and needed seldom

    # Those parts only whose size was counted.
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w") as copy:
        for name in filter(is_xml, dict.fromkeys(parts.namelist())):
            copy.writestr(name, parts.read(name))
    without_pictures = mammoth.images.img_element(lambda image: {})
    html = mammoth.convert_to_html(kept, style_map=_STYLES, convert_image=without_pictures).value
    return read_html(html).text


def check_package(body: bytes) -> str | None:
    """The title of a file of Office, where it has one.

    Raises:
        SkipError: it has too many parts, they unpack to more than the limit, or one has a DTD.
    """
    if body.count(_LISTED) > MAX_PARTS:
        _beyond(f"{MAX_PARTS:,} parts, the limit of a document")
    with zipfile.ZipFile(io.BytesIO(body)) as parts:
        size_bytes = sum(part.file_size for part in parts.infolist() if is_xml(part.filename))
        if size_bytes > MAX_XML_BYTES:
            limit = f"{MAX_XML_BYTES // 1024 // 1024} MiB"
            problem = f"its parts unpack to more than {limit}, the limit of a document; split it"
            raise SkipError(Reason.TOO_LARGE, problem)
        for name in filter(is_xml, parts.NameToInfo):
            with parts.open(name) as file:
                _refuse_dtd(file)
        if "docProps/core.xml" not in parts.NameToInfo:
            return None
        return ElementTree.fromstring(parts.read("docProps/core.xml")).findtext(_TITLE)  # noqa: S314


def _refuse_dtd(part: IO[bytes]) -> None:
    """Raise SkipError where a part has a DTD: its entities expand, and no program writes one."""

    def refuse(*_: object) -> None:
        raise SkipError(Reason.UNREADABLE, "cannot be read: a part of it has a DTD; save it anew")

    begun: list[object] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda *_: begun.append(_)
    with suppress(expat.ExpatError):  # a part that nobody may read
        while not begun and (piece := part.read(_PIECE_BYTES)):
            parser.Parse(piece)


def is_xml(name: str) -> bool:
    """Whether a part of this name counts for the limit of what is unpacked."""
    return name.endswith((".xml", ".rels"))


MAX_CELLS = 1_000_000
MAX_SLIDES = 5_000
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATE_FORMATS = frozenset({*range(14, 23), *range(45, 48)})
"""Numbers of the formats of dates and times that every workbook has."""
_NO_DATE = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_MAX_ELEMENTS = 200_000
"""In memory at once."""
_MAX_DEPTH = 500
_PIECE_BYTES = 4096
_MAX_SERIAL = 2_958_465
"""9999-12-31, in days."""
_COLUMN = re.compile(r"([A-Z]{1,3})\d")


def xlsx_to_text(body: bytes) -> tuple[str | None, str]:
    """The title, and each sheet as a section: a line for each row, `name: value`.

    The first row of a sheet has the names.

    Raises:
        SkipError: no workbook, encrypted, without a row, or beyond a limit.
    """
    return _read(body, "an Excel workbook", ".xlsx", _workbook)


def pptx_to_text(body: bytes) -> tuple[str | None, str]:
    """The title, and each slide as a section with its text and the speaker's notes.

    Raises:
        SkipError: no presentation, encrypted, or beyond a limit.
    """
    return _read(body, "a PowerPoint presentation", ".pptx", _presentation)


def _read(
    body: bytes, kind: str, suffix: str, read: Callable[[zipfile.ZipFile], str]
) -> tuple[str | None, str]:
    if body.startswith(_OLE):
        problem = f"encrypted, or of an old format; save it as {suffix} without a password"
        raise SkipError(Reason.UNREADABLE, problem)
    try:
        title = check_package(body)
        with zipfile.ZipFile(io.BytesIO(body)) as parts:
            text = read(parts)
    except (SkipError, MemoryError):
        raise
    except Exception as error:  # errors of every kind on broken files
        problem = f"cannot be read: not readable as {kind} ({type(error).__name__})"
        raise SkipError(Reason.UNREADABLE, problem) from None
    if not text:
        raise SkipError(Reason.EMPTY, "it contains no text")
    return title, text


def _workbook(parts: zipfile.ZipFile) -> str:
    targets = _targets(parts, "xl/workbook.xml")
    root = _root(parts, "xl/workbook.xml")
    about = (one.get("date1904") for one in root if _tag(one) == "workbookPr")
    sheet = _Sheets(parts, starts_1904=any(stated in ("1", "true") for stated in about))
    lines: list[str] = []
    read: set[str] = set()
    for entry in (one for one in root.iter() if _tag(one) == "sheet"):
        target = targets.get(entry.get(_RELATION, ""), "")
        if "/worksheets/" not in target or target in read:
            continue
        read.add(target)
        rows = sheet.lines(target)
        if first := next(rows, ""):
            lines += [f"# {entry.get('name', 'Sheet')}\n", first, *rows, ""]
    return "\n".join(lines)


class _Sheets:
    """The rows of the sheets of one workbook, which have the limits together."""

    def __init__(self, parts: zipfile.ZipFile, *, starts_1904: bool) -> None:
        self._parts = parts
        self._start = datetime(1904, 1, 1) if starts_1904 else datetime(1899, 12, 30)
        self._cells = self._rows = 0
        self._budget = TextBudget()
        self._shared: list[str] = []
        if "xl/sharedStrings.xml" in parts.NameToInfo:
            self._shared = [_text(one) for one in _each(parts, "xl/sharedStrings.xml", "si")]
        self._dates = _date_styles(parts)

    def lines(self, name: str) -> Iterator[str]:
        """The rows of a sheet below its first one, the names. Raises SkipError beyond a limit."""
        names: dict[int, str] | None = None
        rows_before = self._rows
        for row in _each(self._parts, name, "row"):
            values = self._values(row)
            if not any(values.values()):
                continue
            if names is None:
                names = {column: " ".join(value.split()) for column, value in values.items()}
                continue
            cells = [
                (self._budget.take(names.get(column, "")), column, value)
                for column, value in values.items()
                if value
            ]
            line = row_line(cells)
            self._rows += 1
            if self._rows > MAX_ROWS:
                _beyond(f"{MAX_ROWS:,} rows, the limit of a table")
            yield line
        if names is not None and self._rows == rows_before:
            yield row_line([("", column, value) for column, value in names.items()])

    def _values(self, row: ElementTree.Element) -> dict[int, str]:
        found: dict[int, str] = {}
        for position, cell in enumerate(one for one in row if _tag(one) == "c"):
            self._cells += 1
            if self._cells > MAX_CELLS:
                _beyond(f"{MAX_CELLS:,} cells, the limit of a workbook")
            place = _COLUMN.match(cell.get("r", ""))
            value = self._budget.take(self._value(cell))
            found[_column(place[1]) if place else position] = value
        return found

    def _value(self, cell: ElementTree.Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _text(cell)
        raw = next((one.text or "" for one in cell if _tag(one) == "v"), "")
        if kind == "s":
            return self._shared[int(raw)] if raw else ""
        if kind == "b":
            return "true" if raw == "1" else "false"
        if kind == "n" and raw and cell.get("s") in self._dates:
            return self._date(float(raw)) or raw
        return raw

    def _date(self, serial: float) -> str:
        if not 0 <= serial <= _MAX_SERIAL - 1462:
            return ""
        moment = self._start + timedelta(seconds=round(serial * 86_400))
        if serial < 1:
            return moment.strftime("%H:%M:%S")
        whole = serial == int(serial)
        return moment.date().isoformat() if whole else moment.isoformat(" ")


def _date_styles(parts: zipfile.ZipFile) -> frozenset[str]:
    if "xl/styles.xml" not in parts.NameToInfo:
        return frozenset()
    root = _root(parts, "xl/styles.xml")
    own = {
        one.get("numFmtId"): _NO_DATE.sub("", one.get("formatCode", ""))
        for one in root.iter()
        if _tag(one) == "numFmt"
    }
    dates = {number for number, code in own.items() if re.search("[dmyhs]", code, re.I)}
    dates |= {str(number) for number in _DATE_FORMATS} - own.keys()
    formats = next((one for one in root if _tag(one) == "cellXfs"), ())
    return frozenset(
        str(place) for place, one in enumerate(formats) if one.get("numFmtId") in dates
    )


def _presentation(parts: zipfile.ZipFile) -> str:
    targets = _targets(parts, "ppt/presentation.xml")
    slides = [
        targets[one.get(_RELATION, "")]
        for one in _root(parts, "ppt/presentation.xml").iter()
        if _tag(one) == "sldId"
    ]
    if len(slides) > MAX_SLIDES:
        _beyond(f"{MAX_SLIDES:,} slides, the limit of a presentation")
    found: list[str] = []
    budget = TextBudget()
    read: set[str] = set()
    # Each once: a list may name one slide a thousand times, and all slides the same notes.
    for number, name in enumerate(dict.fromkeys(slides), 1):
        title, paragraphs = _slide(_root(parts, name), budget)
        notes = next((t for t in _targets(parts, name).values() if "/notesSlides/" in t), None)
        if notes is not None and notes not in read:
            read.add(notes)
            spoken = _slide(_root(parts, notes), budget)[1]
            paragraphs += [text for text in spoken if not text.isdigit()]
        if title or paragraphs:
            found += [f"# {title or f'Slide {number}'}", *paragraphs]
    return "\n\n".join(found)


def _slide(root: ElementTree.Element, budget: TextBudget) -> tuple[str, list[str]]:
    title, found = "", []
    for shape in (one for one in root.iter() if _tag(one) in ("sp", "tr")):
        paragraphs = (one for one in shape.iter() if _tag(one) == "p")
        texts = [text for one in paragraphs if (text := budget.take(_text(one)).strip())]
        kinds = {one.get("type") for one in shape.iter() if _tag(one) == "ph"}
        if _tag(shape) == "tr":
            found.append(" | ".join(texts))
        elif not title and kinds & {"title", "ctrTitle"}:
            title = " ".join(" ".join(texts).split())
        elif not kinds & {"sldNum", "dt", "ftr"}:
            found += texts
    return title, [text for text in found if text]


def _targets(parts: zipfile.ZipFile, name: str) -> dict[str, str]:
    """Id → name of each part that a part refers to."""
    folder, _, file = name.rpartition("/")
    relations = f"{folder}/_rels/{file}.rels"
    if relations not in parts.NameToInfo:
        return {}
    return {
        one.get("Id", ""): posixpath.normpath(posixpath.join("/", folder, one.get("Target", "")))[
            1:
        ]
        for one in _root(parts, relations)
        if one.get("TargetMode") != "External"
    }


def _root(parts: zipfile.ZipFile, name: str) -> ElementTree.Element:
    return next(_each(parts, name, None))


def _each(parts: zipfile.ZipFile, name: str, tag: str | None) -> Iterator[ElementTree.Element]:
    """The elements of a name, each forgotten before the next one is read; None: the whole part."""
    if not is_xml(name):  # its size was not counted
        raise SkipError(Reason.UNREADABLE, "cannot be read: a part of it has an unknown type")
    with parts.open(name) as file:
        stack: list[Any] = []
        kept = 0
        for event, one in ElementTree.iterparse(file, ("start", "end")):  # noqa: S314
            if event == "start":
                stack.append(one)
                kept += 1
                if kept > _MAX_ELEMENTS or len(stack) > _MAX_DEPTH:
                    _beyond(f"{_MAX_ELEMENTS:,} elements in a row or a slide")
                continue
            stack.pop()
            if _tag(one) == tag or not stack:
                if tag is None or stack:
                    yield one
                if stack:
                    stack[-1].clear()
                    kept = len(stack)


def _text(element: ElementTree.Element) -> str:
    """The text of its runs, a space for a break; what is read out for Japanese text is left out."""
    spoken = {id(part) for one in element.iter() if _tag(one) == "rPh" for part in one.iter()}
    return "".join(
        " " if _tag(one) == "br" else one.text or ""
        for one in element.iter()
        if _tag(one) in ("t", "br") and id(one) not in spoken
    )


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _column(letters: str) -> int:
    found = 0
    for letter in letters:
        found = 26 * found + ord(letter) - 64
    return found - 1


def _beyond(limit: str) -> None:
    raise SkipError(Reason.TOO_LARGE, f"more than {limit}; split it")

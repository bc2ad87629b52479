"""JSON: lines with one object a document, files of records or of any shape, Jupyter notebooks."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from searchbus_contracts.retrieval import Metadata
from searchbus_pages import detect_charset, fenced

from .item import Item, Reason, SkipError, make_document, unread
from .walk import open_regular

MAX_VALUES = 1_000_000
MAX_MARKS = 8_000_000
"""Brackets and commas that are parsed at once: as values they take up to 1.5 GB."""
_RECORD_KEYS = ({"id", "_id"}, {"text", "full_text", "content"})


def parse_json(text: str) -> Any:
    """The value of a whole file; raises SkipError: it is no JSON, too large or too deep."""
    try:
        return _loads(text)
    except RecursionError:
        raise SkipError(Reason.TOO_COMPLEX, "its values are nested too deeply") from None
    except ValueError as error:
        problem = f"cannot be read: not valid JSON: {getattr(error, 'msg', 'a number is too long')}"
        raise SkipError(Reason.UNREADABLE, problem) from None


def _loads(text: str) -> Any:
    if sum(map(text.count, "[{,")) > MAX_MARKS:
        problem = f"more than {MAX_MARKS:,} brackets and commas, the limit of JSON; split it"
        raise SkipError(Reason.TOO_LARGE, problem)
    return json.loads(text)


def records_of(value: Any) -> list[dict[str, Any]] | None:
    """The records of an array whose first one has an id and a text; None for any other value."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    return value if all(keys & value[0].keys() for keys in _RECORD_KEYS) else None


def json_to_text(value: Any) -> str:
    """One line for each value that is neither a list nor an object.

    Raises:
        SkipError: it has more than 1,000,000 values.
    """
    lines: list[str] = []
    left: list[tuple[str, Any]] = [("", value)]
    count = 0
    while left:
        path, one = left.pop()
        count += 1
        if count > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values, the limit of a JSON file; split it"
            raise SkipError(Reason.TOO_LARGE, problem)
        inner = (
            one.items()
            if isinstance(one, dict)
            else enumerate(one)
            if isinstance(one, list)
            else None
        )
        if inner is not None:
            # A long path would repeat itself in every line.
            below = [
                (f"{path}.{key}"[-200:].lstrip(".") if path else str(key)[:200], part)
                for key, part in inner
            ]
            left += reversed(below)
        elif one is not None and one != "":
            shown = one if isinstance(one, str) else json.dumps(one)
            lines.append(f"- {path}: {shown}" if path else shown)
    return "\n".join(lines)


_ID = ("id", "_id")
_TEXT = ("text", "full_text", "content")
_URL = ("url", "source_url")
MAX_LINE_CHARS = 128 * 1024 * 1024
_SAMPLE_BYTES = 200_000
_NOT_DECODED = re.compile("[\ud800-\udfff]")


def read_jsonl(path: Path, collection: str, root: Path | None = None) -> Iterator[Item]:
    """Every line of the file as an item, in order; `root` as of `open_regular`."""
    try:
        with open_regular(path, max_bytes=None, root=root) as file:
            charset = _charset(file)
            for number, line in enumerate(_lines(file, charset), 1):
                if line and not line.isspace():
                    yield _read_line(f"{path.name}:{number}", line, charset, collection)
    except (SkipError, OSError) as error:
        yield unread(path.name, error)


def count_lines(path: Path) -> int | None:
    """The number of lines that are not empty; `None` where they cannot be counted."""
    try:
        with open_regular(path, max_bytes=None) as file:
            return sum(not line.isspace() for line in _lines(file, _charset(file)))
    except (SkipError, OSError):
        return None


def _charset(file: BinaryIO) -> str:
    """The charset of the whole file: UTF-8 if most lines that are not ASCII are UTF-8."""
    head = file.read(2)
    file.seek(0)
    # Every line of JSON begins with a bracket.
    for name in ("utf-16-le", "utf-16-be"):
        if head in ("\ufeff".encode(name), "{".encode(name)):
            return name
    good = bad = 0
    sample = bytearray()
    while line := file.readline(MAX_LINE_CHARS):
        if line.isascii():
            continue
        try:
            line.decode()
            good += 1
        except UnicodeDecodeError:
            bad += 1
            sample += line[: max(0, _SAMPLE_BYTES - len(sample))]
    file.seek(0)
    return "utf-8" if good >= bad else detect_charset(bytes(sample))


def _lines(file: BinaryIO, charset: str) -> Iterator[str]:
    """Lines of at most one character over the limit; the rest of a longer one is passed over.

    Bytes that are no character of the charset become lone surrogates.
    """
    text = io.TextIOWrapper(file, charset, errors="surrogateescape", newline="\n")
    try:
        while line := text.readline(MAX_LINE_CHARS + 1):
            yield line.removeprefix("\ufeff")
            while len(line) > MAX_LINE_CHARS and not line.endswith("\n"):
                line = text.readline(MAX_LINE_CHARS + 1) or "\n"
    finally:
        text.detach()


def _read_line(origin: str, line: str, charset: str, collection: str) -> Item:
    if len(line) > MAX_LINE_CHARS:
        limit = f"{MAX_LINE_CHARS // 1024 // 1024} Mi characters"
        problem = f"the line has more than {limit}, the limit of a line; split the document"
        return Item(origin, problem=problem, reason=Reason.TOO_LARGE)
    if _NOT_DECODED.search(line):
        return _bad(origin, f"not valid {charset.upper()}, the charset of the other lines")
    try:
        row = _loads(line)
    except SkipError as error:
        return unread(origin, error)
    except (ValueError, RecursionError) as error:
        return _bad(origin, f"not valid JSON: {getattr(error, 'msg', 'nested too deeply')}")
    return read_record(origin, row, collection)


def read_record(origin: str, row: Any, collection: str) -> Item:
    """The document of one record."""
    if not isinstance(row, dict):
        return _bad(origin, "not a JSON object")
    key, source_id = _first(row, _ID)
    if not isinstance(source_id, str | int) or isinstance(source_id, bool) or source_id == "":
        return _bad(origin, '"id" is missing (a string or a whole number)')
    text_key, text = _first(row, _TEXT)
    if not isinstance(text, str):
        return _bad(origin, '"text" is missing (a string)')
    title = row.get("title")
    url_key, url = _first(row, _URL)
    used = {key, text_key, url_key, "title"}
    metadata: Metadata = {
        name: value
        for name, value in row.items()
        if name not in used and _is_scalar(value) and name.isidentifier() and name.isascii()
        and len(name) <= 64
    }  # fmt: skip
    return make_document(
        origin,
        collection=collection,
        source_id=str(source_id)[:400],
        title=title if isinstance(title, str) and title.strip() else str(source_id),
        text=text,
        url=url if isinstance(url, str) else None,
        metadata=metadata,
    )


def _bad(origin: str, problem: str) -> Item:
    return Item(origin, problem=problem, reason=Reason.BAD_LINE)


def _first(row: dict[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    for name in names:
        if name in row:
            return name, row[name]
    return names[0], None


def _is_scalar(value: Any) -> bool:
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    if isinstance(value, int):
        return abs(value) < 2**62
    return isinstance(value, str) and len(value) <= 2000


MAX_CELLS = 10_000
MAX_OUTPUT_CHARS = 2_000
"""One cell may have printed megabytes. Pictures and HTML are left out."""


def notebook_to_text(text: str) -> str:
    """The cells in order, as Markdown.

    Raises:
        SkipError: no notebook, or of more than 10,000 cells.
    """
    book = parse_json(text)
    cells = book.get("cells") if isinstance(book, dict) else None
    if cells is None and isinstance(book, dict):  # until format 3
        sheets = book.get("worksheets")
        first = sheets[0] if isinstance(sheets, list) and sheets else None
        cells = first.get("cells") if isinstance(first, dict) else None
    if not isinstance(cells, list):
        raise SkipError(Reason.UNREADABLE, "cannot be read: it has no cells of a notebook")
    if len(cells) > MAX_CELLS:
        problem = f"more than {MAX_CELLS:,} cells, the limit of a notebook; split it"
        raise SkipError(Reason.TOO_LARGE, problem)
    return "\n\n".join(part for cell in cells if isinstance(cell, dict) for part in _cell(cell))


def _cell(cell: dict[str, Any]) -> list[str]:
    source = _joined(cell.get("source", cell.get("input"))).strip()
    if cell.get("cell_type") != "code":
        return [source] if source else []
    found = [fenced(source)] if source else []
    outputs = cell.get("outputs")
    texts = (_output(output) for output in outputs) if isinstance(outputs, list) else ()
    printed = ""
    for text in texts:
        if len(printed) <= MAX_OUTPUT_CHARS:
            printed += text[: MAX_OUTPUT_CHARS + 1]
    if len(printed) > MAX_OUTPUT_CHARS:
        printed = f"{printed[:MAX_OUTPUT_CHARS]}…"
    return [*found, fenced(printed.strip())] if printed.strip() else found


def _output(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    plain = data.get("text/plain") if isinstance(data, dict) else None
    return _joined(output.get("text")) or _joined(plain)


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""

"""Single files and folders, by the type that a name ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from searchbus_pages import TooComplexError, decode_text, looks_binary, read_html

from ..code_headings import CODE_SUFFIXES
from .docx import docx_to_text
from .item import Item, Reason, SkipError, make_document
from .json_file import json_to_text, parse_json, records_of
from .jsonl import read_jsonl, read_record
from .notebook import notebook_to_text
from .office import pptx_to_text, xlsx_to_text
from .pdf import pdf_to_text
from .regular_file import read_regular
from .table import csv_to_text
from .titles import usable_title
from .walk import FoundFile, find_files

__all__ = ["SUFFIXES", "read_files", "read_path"]

MAX_FILE_BYTES = 256 * 1024 * 1024
_MARKDOWN = frozenset({".md", ".markdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_TEXT = frozenset({".txt", ".text", ".rst", ".log"})
_TABLE = frozenset({".csv", ".tsv"})
_LINES = frozenset({".jsonl", ".ndjson"})
_BINARY = {
    ".pdf": pdf_to_text, ".docx": docx_to_text, ".xlsx": xlsx_to_text, ".pptx": pptx_to_text,
}  # fmt: skip
SUFFIXES = frozenset({
    *_MARKDOWN, *_HTML, *_TEXT, *_TABLE, *_LINES, *_BINARY, *CODE_SUFFIXES, ".json", ".ipynb",
})  # fmt: skip


class _Content(NamedTuple):
    title: str | None
    text: str
    markdown: bool
    note: str | None = None
    records: list[Any] | None = None


def read_path(path: Path, collection: str, *, include: tuple[str, ...] = ()) -> Iterator[Item]:
    """A file, or every known file below a folder in a stable order.

    Args:
        include: glob patterns on the path below the folder (`**` crosses folders); none: every
            known suffix.
    """
    return read_files(find_files(path, SUFFIXES, include=include), collection)


def read_files(
    files: Iterable[FoundFile],
    collection: str,
    *,
    on_file: Callable[[str], None] = lambda name: None,
) -> Iterator[Item]:
    """The documents of the files; an item with the reason for each that is skipped.

    Args:
        on_file: called with the name of each file when it is done.
    """
    for file in files:
        if file.skipped is not None:
            yield file.skipped
        elif file.path.suffix.lower() in _LINES:
            yield from read_jsonl(file.path, collection)
        else:
            yield from _read_file(file.path, file.name, collection)
        on_file(file.name)


def _read_file(path: Path, name: str, collection: str) -> Iterator[Item]:
    """The document of a file, or those of the records of a JSON file."""
    item = _item(path, name, collection)
    if isinstance(item, Item):
        yield item
    else:
        for number, record in enumerate(item, 1):
            yield read_record(f"{name}:{number}", record, collection)


def _item(path: Path, name: str, collection: str) -> Item | list[Any]:
    suffix = path.suffix.lower()
    try:
        body = read_regular(path, max_bytes=MAX_FILE_BYTES)
        content = _content(body, suffix)
    except SkipError as skip:
        return Item(name, problem=skip.problem, reason=skip.reason)
    except TooComplexError as error:
        return Item(name, problem=f"cannot be read: {error}", reason=Reason.TOO_COMPLEX)
    except OSError as error:
        return Item(name, problem=f"cannot be read: {error.strerror or error}")
    except ValueError as error:
        return Item(name, problem=f"cannot be read: {error}")
    if content.records is not None:
        return content.records
    heading = _first_heading(content.text) if content.markdown else None
    return make_document(
        name,
        collection=collection,
        source_id=name,
        title=usable_title(content.title) or usable_title(heading) or path.stem,
        text=content.text,
        url=path.resolve().as_uri(),
        metadata={"path": name[:2000]},
        markdown=content.markdown,
        code_suffix=suffix if suffix in CODE_SUFFIXES else None,
        note=content.note,
    )


def _content(body: bytes, suffix: str) -> _Content:
    if suffix in _BINARY:
        return _Content(*_BINARY[suffix](body), markdown=suffix != ".pdf")
    text = decode_text(body, markup=suffix in _HTML)
    if looks_binary(text):
        raise SkipError(Reason.BINARY, f"binary content, although its name ends with {suffix}")
    lost = text.count("\ufffd") - body.count("\ufffd".encode())
    note = f"{lost} bytes that are no character became '\ufffd'" if lost > 0 else None
    if suffix in _HTML:
        return _Content(*read_html(text), markdown=True, note=note)
    if suffix == ".ipynb":
        return _Content(None, notebook_to_text(text), markdown=True, note=note)
    if suffix == ".json":
        value = parse_json(text)
        records = records_of(value)
        shown = "" if records is not None else json_to_text(value)
        return _Content(None, shown, markdown=False, note=note, records=records)
    if suffix in _TABLE:
        return _Content(None, csv_to_text(text), markdown=True, note=note)
    return _Content(None, text, markdown=suffix in _MARKDOWN, note=note)


def _first_heading(text: str) -> str | None:
    for line in text.splitlines()[:50]:
        if line.startswith("# "):
            return line[2:].strip()
    return None

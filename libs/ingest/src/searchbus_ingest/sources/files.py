"""Single files and folders, by the type that a name ends with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from searchbus_pages import decode_text, looks_binary, read_html
from searchbus_passages.headings import CODE_SUFFIXES, find_headings

from .item import Item, Reason, SkipError, make_document, unread
from .jsonl import json_to_text, notebook_to_text, parse_json, read_jsonl, read_record, records_of
from .office import docx_to_text, pptx_to_text, xlsx_to_text
from .pdf import pdf_to_text
from .table import csv_to_text
from .walk import FoundFile, read_regular

_PROGRAM = re.compile(
    r"^(?:microsoft (?:office )?(?:word|excel|powerpoint)|powerpoint|word|adobe \w+) - ", re.I
)
_PLACEHOLDER = re.compile(
    r"(?:\(?(?:untitled|anonymous|unknown|unnamed|unbenannt|sans titre|sin t[ií]tulo|title|titel"
    r"|no title|none|null|index|home|document|dokument|documento|slide|folie|page|new page|scan"
    r"|(?:microsoft )?powerpoint[ -]presentation|(?:microsoft )?word document)"
    r"(?: document| page)?\)?[ _-]*\d*)",
    re.I,
)
_FILE_NAME = re.compile(
    r"\S*\.(?:docx?|xlsx?|pptx?|pdf|html?|txt|rtf|odt|indd|qxd|dvi|tex|ps|wpd)", re.I
)


def usable_title(title: str | None) -> str | None:
    """The title on one line, or `None` where it names a program, a file or nothing at all."""
    text = " ".join((title or "").replace("\0", "").split())
    if not any(character.isalpha() for character in text) or "\ufffd" in text:
        return None
    if _PROGRAM.match(text) or _PLACEHOLDER.fullmatch(text) or _FILE_NAME.fullmatch(text):
        return None
    return text


MAX_FILE_BYTES = 256 * 1024 * 1024
_MARKDOWN = frozenset({".md", ".markdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_PLAIN = frozenset({".txt", ".text", ".rst", ".log"})
_TABLE = frozenset({".csv", ".tsv"})
_LINES = frozenset({".jsonl", ".ndjson"})
_BINARY = {
    ".pdf": pdf_to_text, ".docx": docx_to_text, ".xlsx": xlsx_to_text, ".pptx": pptx_to_text,
}  # fmt: skip
SUFFIXES = frozenset({
    *_MARKDOWN, *_HTML, *_PLAIN, *_TABLE, *_LINES, *_BINARY, *CODE_SUFFIXES, ".json", ".ipynb",
})  # fmt: skip


_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t\r]*\n(?:(?!\1)[^\n]*\n){0,50}?title[ \t]*[:=](?P<title>[^\n]*)"
)
"""Metadata in YAML or TOML above the text of Markdown, as makers of sites read it."""


class _Content(NamedTuple):
    title: str | None
    text: str
    note: str | None = None
    markdown: bool = False
    records: list[Any] | None = None


def read_files(
    files: Iterable[FoundFile],
    collection: str,
    *,
    on_file: Callable[[str], None] = lambda name: None,
    url: str | None = None,
) -> Iterator[Item]:
    """The documents of the files; an item with the reason for each that is skipped.

    Args:
        on_file: called with the name of each file when it is done.
        url: of their documents, for a file that is a copy; by default the file's own.
    """
    for file in files:
        if file.skipped is not None:
            yield file.skipped
        elif file.path.suffix.lower() in _LINES:
            yield from read_jsonl(file.path, collection)
        else:
            yield from _read_file(file.path, file.name, collection, url)
        on_file(file.name)


def _read_file(path: Path, name: str, collection: str, url: str | None) -> Iterator[Item]:
    item = _item(path, name, collection, url)
    if isinstance(item, Item):
        yield item
    else:
        for number, record in enumerate(item, 1):
            yield read_record(f"{name}:{number}", record, collection)


def _item(path: Path, name: str, collection: str, url: str | None) -> Item | list[Any]:
    suffix = path.suffix.lower()
    try:
        body = read_regular(path, max_bytes=MAX_FILE_BYTES)
        content = read_content(body, suffix)
    except (SkipError, OSError, ValueError) as error:
        return unread(name, error)
    if content.records is not None:
        return content.records
    return make_document(
        name,
        collection=collection,
        source_id=name,
        title=content.title or path.stem,
        text=content.text,
        url=url or path.resolve().as_uri(),
        metadata={"path": name[:2000]},
        markdown=content.markdown,
        code_suffix=suffix if suffix in CODE_SUFFIXES else None,
        note=content.note,
    )


def read_content(body: bytes, suffix: str, charset: str | None = None) -> _Content:
    """Title (its own, that of its front matter, or its first heading) and text of a file's bytes.

    Args:
        charset: that a header names, where one does.

    Raises:
        SkipError, ValueError: there is no text to read.
    """
    content = _content(body, suffix, charset)
    titles = [content.title]
    if content.markdown:
        front = _FRONT_MATTER.match(content.text)
        titles += [front and front["title"].strip("\"' \t\r"), _first_heading(content.text)]
    return content._replace(title=next(filter(None, map(usable_title, titles)), None))


def _content(body: bytes, suffix: str, charset: str | None) -> _Content:
    if suffix in _BINARY:
        title, shown, *notes = _BINARY[suffix](body)
        return _Content(title, shown or "", next(iter(notes), None), markdown=True)
    text = decode_text(body, charset, markup=suffix in _HTML)
    if looks_binary(text):
        raise SkipError(Reason.BINARY, f"binary content, although its name ends with {suffix}")
    lost = text.count("\ufffd") - body.count("\ufffd".encode())
    note = f"{lost} bytes that are not characters became '\ufffd'" if lost > 0 else None
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
    """The first one of the highest level near the beginning, which is not in code."""
    for heading in find_headings(text, markdown=True):
        if text.count("\n", 0, heading.start) >= 50:
            break
        if not text.startswith("##", heading.start):
            return heading.title
    return None

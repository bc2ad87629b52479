"""The title and the text of a file's bytes, by the type that its name ends with."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from searchbus_contracts.ingest import MAX_DOCUMENT_BYTES
from searchbus_pages import decode_text, looks_binary, read_html
from searchbus_passages.headings import CODE_SUFFIXES, find_headings

from .item import Reason, SkipError
from .jsonl import json_to_text, notebook_to_text, parse_json, records_of
from .office import docx_to_text, pptx_to_text, xlsx_to_text
from .pdf import pdf_to_text
from .table import csv_to_text

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


_MARKDOWN = frozenset({".md", ".markdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_PLAIN = frozenset({".txt", ".text", ".rst", ".log"})
_TABLE = frozenset({".csv", ".tsv"})
LINES = frozenset({".jsonl", ".ndjson"})
_BINARY = {
    ".pdf": pdf_to_text, ".docx": docx_to_text, ".xlsx": xlsx_to_text, ".pptx": pptx_to_text,
}  # fmt: skip
PARSED = frozenset({*_HTML, *_TABLE, *_BINARY, ".ipynb"})
"""Types whose parsers a hostile file makes hang, crash or take much memory."""
SUFFIXES = frozenset({
    *_MARKDOWN, *_HTML, *_PLAIN, *_TABLE, *LINES, *_BINARY, *CODE_SUFFIXES, ".json", ".ipynb",
})  # fmt: skip


_FRONT_MATTER = re.compile(
    r"(---|\+\+\+)[ \t\r]*\n(?:(?!\1)[^\n]*\n){0,50}?title[ \t]*[:=](?P<title>[^\n]*)"
)
"""Metadata in YAML or TOML above the text of Markdown, as makers of sites read it."""


class Content(NamedTuple):
    """What a file holds: a text, or records of JSON; `note`: what was lost of it."""

    title: str | None
    text: str
    note: str | None = None
    markdown: bool = False
    records: list[Any] | None = None


def read_content(body: bytes, suffix: str, charset: str | None = None) -> Content:
    """Title (its own, that of its front matter, or its first heading) and text of a file's bytes.

    Args:
        charset: that a header names, where one does.

    Raises:
        SkipError, ValueError: there is no text to read.
    """
    content = _content(body, suffix, charset)
    if len(content.text) > MAX_DOCUMENT_BYTES:
        limit = f"{MAX_DOCUMENT_BYTES // 2**20} MiB, the limit of a document"
        raise SkipError(Reason.TOO_LARGE, f"its text is larger than {limit}; split it")
    titles = [content.title]
    if content.markdown:
        front = _FRONT_MATTER.match(content.text)
        titles += [front and front["title"].strip("\"' \t\r"), _first_heading(content.text)]
    return content._replace(title=next(filter(None, map(usable_title, titles)), None))


def _content(body: bytes, suffix: str, charset: str | None) -> Content:
    if suffix in _BINARY:
        title, shown, *notes = _BINARY[suffix](body)
        return Content(title, shown or "", next(iter(notes), None), markdown=True)
    text = decode_text(body, charset, markup=suffix in _HTML)
    if looks_binary(text):
        raise SkipError(Reason.BINARY, f"binary content, although its name ends with {suffix}")
    lost = text.count("\ufffd") - body.count("\ufffd".encode())
    note = f"{lost} bytes that are not characters became '\ufffd'" if lost > 0 else None
    if suffix in _HTML:
        return Content(*read_html(text), markdown=True, note=note)
    if suffix == ".ipynb":
        return Content(None, notebook_to_text(text), markdown=True, note=note)
    if suffix == ".json":
        value = parse_json(text)
        records = records_of(value)
        shown = "" if records is not None else json_to_text(value)
        return Content(None, shown, markdown=False, note=note, records=records)
    if suffix in _TABLE:
        return Content(None, csv_to_text(text), markdown=True, note=note)
    return Content(None, text, markdown=suffix in _MARKDOWN, note=note)


def _first_heading(text: str) -> str | None:
    """The first one of the highest level near the beginning, which is not in code."""
    for heading in find_headings(text, markdown=True):
        if text.count("\n", 0, heading.start) >= 50:
            break
        if not text.startswith("##", heading.start):
            return heading.title
    return None

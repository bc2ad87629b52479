"""Single files and folders: Markdown, text, HTML, PDF, JSON Lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from .html import html_to_markdown
from .item import Item, make_document
from .jsonl import read_jsonl
from .pdf import pdf_to_text

__all__ = ["SUFFIXES", "read_path"]

MAX_FILE_BYTES = 256 * 1024 * 1024
_MARKDOWN = frozenset({".md", ".markdown"})
_HTML = frozenset({".html", ".htm", ".xhtml"})
_TEXT = frozenset({".txt", ".text", ".rst", ".log"})
SUFFIXES = frozenset({*_MARKDOWN, *_HTML, *_TEXT, ".pdf", ".jsonl", ".ndjson"})


def read_path(
    path: Path,
    collection: str,
    *,
    include: tuple[str, ...] = (),
    on_file: Callable[[Path], None] | None = None,
) -> Iterator[Item]:
    """A file, or every known file below a folder in a stable order.

    Args:
        include: glob patterns on the path below the folder; none: every known suffix.
        on_file: called with each file before it is read.
    """
    if path.is_file():
        yield from _read_file(path, path.name, collection)
        return
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        name = file.relative_to(path).as_posix()
        if any(part.startswith(".") for part in name.split("/")):
            continue
        if include and not any(fnmatch(name, pattern) for pattern in include):
            continue
        if not include and file.suffix.lower() not in SUFFIXES:
            continue
        if on_file is not None:
            on_file(file)
        yield from _read_file(file, name, collection)


def _read_file(file: Path, name: str, collection: str) -> Iterator[Item]:
    suffix = file.suffix.lower()
    try:
        if suffix in (".jsonl", ".ndjson"):
            yield from read_jsonl(file, collection)
            return
        if suffix not in SUFFIXES:
            known = ", ".join(sorted(SUFFIXES))
            yield Item(name, problem=f"unknown kind of file; known: {known}")
            return
        if file.stat().st_size > MAX_FILE_BYTES:
            yield Item(name, problem="the file is larger than 256 MiB")
            return
        if suffix == ".pdf":
            title, text = pdf_to_text(file)
        elif suffix in _HTML:
            title, text = html_to_markdown(file.read_bytes())
        else:
            text = file.read_bytes().decode("utf-8-sig", "replace")
            title = None
    except (OSError, ValueError) as error:
        yield Item(name, problem=f"cannot be read: {error}")
        return
    markdown = suffix in _MARKDOWN or suffix in _HTML
    yield make_document(
        name,
        collection=collection,
        source_id=name,
        title=title or (_first_heading(text) if markdown else None) or file.stem,
        text=text,
        url=file.resolve().as_uri(),
        metadata={"path": name[:2000]},
        markdown=markdown,
    )


def _first_heading(text: str) -> str | None:
    for line in text.splitlines()[:50]:
        if line.startswith("# "):
            return line[2:].strip()
    return None

"""Single files and folders: Markdown, text, HTML, PDF, JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from searchbus_pages import decode_text, read_html

from .item import Item, make_document
from .jsonl import read_jsonl
from .pdf import pdf_to_text

__all__ = ["SUFFIXES", "read_path"]

MAX_FILE_BYTES = 256 * 1024 * 1024
_SKIPPED = frozenset({"node_modules", "__pycache__"})
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
        include: glob patterns on the path below the folder (`**` crosses folders); none: every
            known suffix.
        on_file: called with each file before it is read.
    """
    if path.is_file():
        yield from _read_file(path, path.name, collection)
        return
    for name in _walk(path):
        file = path / name
        if include and not any(_matches(name.split("/"), p.split("/")) for p in include):
            continue
        if not include and file.suffix.lower() not in SUFFIXES:
            continue
        if on_file is not None:
            on_file(file)
        yield from _read_file(file, name, collection)


def _walk(folder: Path) -> Iterator[str]:
    """Names of the files below a folder in a stable order, without hidden and generated ones."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(files):
            if not name.startswith("."):
                yield (Path(parent) / name).relative_to(folder).as_posix()


def _matches(name: list[str], pattern: list[str]) -> bool:
    """Match as shells do: `*` stays within a folder, `**` crosses folders."""
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(_matches(name[i:], pattern[1:]) for i in range(len(name) + 1))
    return bool(name) and fnmatch(name[0], pattern[0]) and _matches(name[1:], pattern[1:])


def _read_file(file: Path, name: str, collection: str) -> Iterator[Item]:
    suffix = file.suffix.lower()
    try:
        if suffix in (".jsonl", ".ndjson"):
            yield from read_jsonl(file, collection)
            return
        if suffix not in SUFFIXES:
            known = ", ".join(sorted(SUFFIXES))
            yield Item(name, problem=f"unknown file type; supported: {known}")
            return
        if file.stat().st_size > MAX_FILE_BYTES:
            yield Item(name, problem="the file is larger than 256 MiB")
            return
        if suffix == ".pdf":
            title, text = pdf_to_text(file)
        elif suffix in _HTML:
            title, text = read_html(decode_text(file.read_bytes(), markup=True))
        else:
            text = decode_text(file.read_bytes())
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

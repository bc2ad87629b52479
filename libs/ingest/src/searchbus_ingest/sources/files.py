"""Single files and folders, by the type that a name ends with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from searchbus_passages.headings import CODE_SUFFIXES

from .content import LINES, PARSED, Content, read_content
from .item import Item, SkipError, in_thread, make_document, unread
from .jsonl import read_jsonl, read_record
from .reading import Reader
from .walk import FoundFile, read_regular

MAX_FILE_BYTES = 256 * 1024 * 1024


async def read_files(
    files: Iterable[FoundFile],
    collection: str,
    reader: Reader,
    *,
    on_file: Callable[[str], None] = lambda name: None,
    url: str | None = None,
) -> AsyncIterator[Item]:
    """The documents of the files; an item with the reason for each that is skipped.

    Args:
        on_file: called with the name of each file when it is done.
        url: of their documents, for a file that is a copy; by default the file's own.
    """
    for file in files:
        if file.skipped is not None:
            yield file.skipped
        elif file.path.suffix.lower() in LINES:
            async for item in in_thread(read_jsonl(file.path, collection, file.root)):
                yield item
        else:
            async for item in _read_file(file, collection, reader, url):
                yield item
        on_file(file.name)


async def _read_file(
    file: FoundFile, collection: str, reader: Reader, url: str | None
) -> AsyncIterator[Item]:
    try:
        found = await asyncio.to_thread(_load, file, collection, url)
        if isinstance(found, bytes):
            content = await reader.read(found, file.path.suffix.lower())
            found = await asyncio.to_thread(_document, file, content, collection, url)
    except (SkipError, OSError, ValueError) as error:
        found = unread(file.name, error)
    if isinstance(found, Item):
        yield found
        return
    async for item in in_thread(
        read_record(f"{file.name}:{number}", record, collection)
        for number, record in enumerate(found, 1)
    ):
        yield item


def _load(file: FoundFile, collection: str, url: str | None) -> Item | list[Any] | bytes:
    """Its document or records; its bytes where a process is to parse them."""
    body = read_regular(file.path, max_bytes=MAX_FILE_BYTES, root=file.root)
    suffix = file.path.suffix.lower()
    if suffix in PARSED:
        return body
    content = read_content(body, suffix)
    return _document(file, content, collection, url) if content.records is None else content.records


def _document(file: FoundFile, content: Content, collection: str, url: str | None) -> Item:
    path, suffix = file.path, file.path.suffix.lower()
    return make_document(
        file.name,
        collection=collection,
        source_id=file.name,
        title=content.title or path.stem,
        text=content.text,
        url=url or path.resolve().as_uri(),
        metadata={"path": file.name[:2000]},
        markdown=content.markdown,
        code_suffix=suffix if suffix in CODE_SUFFIXES else None,
        note=content.note,
    )

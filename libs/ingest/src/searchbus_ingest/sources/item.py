"""What readers yield, and how a text becomes a document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from enum import StrEnum

from searchbus_contracts.ingest import (
    MAX_DOCUMENT_BYTES,
    MAX_URL_CHARS,
    Chunk,
    NewDocument,
    document_id,
)
from searchbus_contracts.retrieval import Metadata
from searchbus_pages import TooComplexError
from searchbus_passages import chunking


class Reason(StrEnum):
    """Why something was not stored: what the summary counts by."""

    UNSUPPORTED = "unsupported type"
    HIDDEN = "hidden or generated"
    OUTSIDE = "link out of the folder"
    NOT_REGULAR = "not a regular file"
    TOO_LARGE = "too large"
    TOO_COMPLEX = "too complex"
    BINARY = "binary content"
    EMPTY = "no text"
    CHANGED = "changed while it was read"
    UNREADABLE = "unreadable"
    NOT_LISTED = "folder or list that cannot be read"
    BAD_LINE = "faulty line"
    DUPLICATE = "duplicate id"
    REFUSED = "refused by the service"


class SourceUnchangedError(Exception):
    """A source, or one of its entries, is as it was when it was read last."""


class SkipError(Exception):
    """A reader cannot make a document of a file."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason
        self.problem = problem


_RECORDS = re.compile(r"\.(?:json|jsonl|ndjson)(?::\d+)?$", re.I)


@dataclass(frozen=True, slots=True)
class Item:
    """A document, or the problem that prevented it.

    Args:
        origin: the place (file, line).
        problem: a sentence; `None` beside a document.
        left_out: nobody asked for it: an unsupported or hidden file of a folder. No failure.
        note: what was lost of a document that is stored.
        source_id: beside a problem, what the id of its document is made of; empty: `origin`, or
            only its content tells.
    """

    origin: str
    document: NewDocument | None = None
    problem: str | None = None
    reason: Reason = Reason.UNREADABLE
    left_out: bool = False
    note: str | None = None
    source_id: str = ""

    @property
    def hides_documents(self) -> bool:
        """Whether there may be documents of it whose ids are not known."""
        of_many = self.reason is Reason.NOT_LISTED or _RECORDS.search(self.origin) is not None
        return of_many and not self.source_id and not self.left_out

    def __str__(self) -> str:
        return f"{self.origin}: {self.problem or self.note}"


def unread(origin: str, error: SkipError | OSError | ValueError) -> Item:
    """The item of what could not be read, as a reader raised it."""
    if isinstance(error, SkipError):
        return Item(origin, problem=error.problem, reason=error.reason)
    why = error.strerror if isinstance(error, OSError) else None
    reason = Reason.TOO_COMPLEX if isinstance(error, TooComplexError) else Reason.UNREADABLE
    return Item(origin, problem=f"cannot be read: {why or error}", reason=reason)


def cut(text: str, *, markdown: bool = False, code_suffix: str | None = None) -> list[Chunk]:
    """Cut a text, of code by the suffix of its file; one without a visible character gives no
    chunks."""
    pieces = chunking.cut(text, markdown=markdown, code_suffix=code_suffix)
    return [Chunk(start=p.start, end=p.end, section=p.section) for p in pieces]


def _encodable(text: str) -> str:
    """The text with "?" for each lone surrogate, which could be neither stored nor sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def make_document(
    origin: str,
    *,
    collection: str,
    source_id: str,
    title: str,
    text: str,
    url: str | None = None,
    metadata: Metadata | None = None,
    markdown: bool = False,
    code_suffix: str | None = None,
    note: str | None = None,
) -> Item:
    """Cut a text into a document; an empty or too large text gives an item with a problem."""
    source_id, title, text = map(_encodable, (source_id, title, text))
    url = None if url is None else _encodable(url)
    if url is not None and len(url) > MAX_URL_CHARS:  # the service would refuse its whole batch
        lost = f"its address has more than {MAX_URL_CHARS} characters and is left out"
        url, note = None, f"{note}; {lost}" if note else lost
    metadata = {
        _encodable(name): _encodable(value) if isinstance(value, str) else value
        for name, value in (metadata or {}).items()
    }
    if not text.strip():
        problem = "it contains no text"
        return Item(origin, problem=problem, reason=Reason.EMPTY, source_id=source_id)
    if len(text.encode()) > MAX_DOCUMENT_BYTES:
        limit = f"{MAX_DOCUMENT_BYTES // 1024 // 1024} MiB"
        problem = f"its text is larger than {limit}, the limit of a document; split it"
        return Item(origin, problem=problem, reason=Reason.TOO_LARGE, source_id=source_id)
    document = NewDocument(
        document_id=document_id(collection, source_id),
        title=" ".join(title.split())[:1000] or source_id[:1000],
        text=text,
        chunks=tuple(cut(text, markdown=markdown, code_suffix=code_suffix)),
        url=url,
        metadata=metadata,
    )
    return Item(origin, document=document, note=note)


async def in_thread(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Iterate in a thread: the readers parse, cut and fetch, which would block the event loop."""
    iterator = iter(items)
    end = object()
    while True:
        item = await asyncio.to_thread(next, iterator, end)
        if item is end:
            return
        assert isinstance(item, Item)
        yield item

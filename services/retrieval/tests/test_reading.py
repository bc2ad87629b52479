"""Documents are read back exactly, whole or in part."""

from __future__ import annotations

import hashlib

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.reading import DocumentReader
from searchbus_retrieval.records import TEXT_PART_CHARS

from .conftest import document

TEXT = "\ufeffPears\r\n\r\ne\u0301clair 5\u20111/4 \U0001f350 | a | b |\n" * 6000
ID = document_id("c", "long")


class CountingStore:
    """Records the ids that are read."""

    def __init__(self, store) -> None:
        self._store = store
        self.read: list[int] = []

    async def get(self, collection, ids):
        self.read.append(len(ids))
        return await self._store.get(collection, ids)


@pytest.fixture
async def reader(library, store):
    assert len(TEXT) > 2 * TEXT_PART_CHARS
    await library.store("c", document("long", TEXT))
    return DocumentReader(store)


async def test_whole_document_has_its_text_length_and_hash(reader):
    """Combining marks, CRLF, U+2011, emoji and a byte order mark survive."""
    found = await reader.read("c", ID)
    assert (found.text, found.start, found.end) == (TEXT, 0, len(TEXT))
    assert found.chars == len(TEXT)
    assert found.content_hash == hashlib.sha256(TEXT.encode()).hexdigest()


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (7, 4000), (TEXT_PART_CHARS - 1, TEXT_PART_CHARS + 1), (TEXT_PART_CHARS, 2 * TEXT_PART_CHARS),
     (199_990, None), (3, 10**9)],
)  # fmt: skip
async def test_part_of_a_document_is_a_slice_of_its_text(reader, start, end):
    """Also across the parts in which it is stored; an end beyond the text is the text's end."""
    found = await reader.read("c", ID, start=start, end=end)
    assert found.text == TEXT[start:end]
    assert (found.start, found.end) == (start, min(end or len(TEXT), len(TEXT)))
    assert found.chars == len(TEXT)


async def test_part_reads_only_the_stored_parts_that_it_needs(reader, store):
    """One record, then one of three parts."""
    counting = CountingStore(store)
    await DocumentReader(counting).read("c", ID, start=TEXT_PART_CHARS, end=TEXT_PART_CHARS + 9)
    assert counting.read == [1, 1]


async def test_start_beyond_the_text_is_refused(reader):
    """With the length, since the document may have changed."""
    with pytest.raises(Fault, match=f"has {len(TEXT)} characters"):
        await reader.read("c", ID, start=len(TEXT))


async def test_missing_document_is_none(reader):
    """So is one of a collection that does not exist."""
    assert await reader.read("c", "other") is None
    assert await reader.read("none", ID) is None

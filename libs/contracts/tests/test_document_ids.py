"""Ids of documents and revisions: the same input has the same id in every process."""

from __future__ import annotations

import uuid

import pytest
from msgspec.structs import replace

from searchbus_contracts.ingest import Chunk, NewDocument, document_id, hash_of_text, revision_of

DOCUMENT = NewDocument(
    document_id="d", title="t", text="text", chunks=(Chunk(start=0, end=4),),
    metadata={"year": 2024, "bank": "Fed"},
)  # fmt: skip


def test_an_id_depends_on_collection_and_source_only():
    """It is the same in every process and after every restart."""
    assert document_id("notes", "a.md") == document_id("notes", "a.md")
    assert document_id("notes", "a.md") != document_id("notes", "b.md")
    assert document_id("notes", "a.md") != document_id("other", "a.md")
    assert uuid.UUID(document_id("notes", "a.md")).version == 5


def test_an_id_is_stable_across_releases():
    """Documents are stored under it."""
    assert document_id("notes", "a.md") == "22836f28-71a2-5f92-84fd-7eb9a6bf7c57"


@pytest.mark.parametrize(
    "changed",
    [
        replace(DOCUMENT, title="u"),
        replace(DOCUMENT, text="next"),
        replace(DOCUMENT, chunks=(Chunk(start=0, end=3),)),
        replace(DOCUMENT, url="https://example.org"),
        replace(DOCUMENT, metadata={"year": 2025, "bank": "Fed"}),
    ],
)
def test_every_stored_field_counts_in_the_revision(changed):
    """A changed document is replaced."""
    assert revision_of(changed) != revision_of(DOCUMENT)


def test_the_order_of_metadata_does_not_count():
    """An unchanged document is not embedded again."""
    swapped = replace(DOCUMENT, metadata={"bank": "Fed", "year": 2024})
    assert revision_of(swapped) == revision_of(DOCUMENT)
    assert len(revision_of(DOCUMENT)) == 32


def test_hash_of_a_text_is_what_callers_compute():
    """As `printf %s … | sha256sum`; a changed character changes it."""
    assert hash_of_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_of_text("ab\u0301") != hash_of_text("a\u0301b")

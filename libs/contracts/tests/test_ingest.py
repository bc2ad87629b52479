"""Requests that write documents have limits; chunks are arrays on the wire."""

from __future__ import annotations

import uuid

import pytest
from msgspec.structs import replace

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.ingest import (
    Chunk,
    IngestRequest,
    NewDocument,
    document_id,
    hash_of_text,
    revision_of,
)

DOCUMENT = {"document_id": "d", "title": "t", "text": "text", "chunks": [[0, 4]]}


def test_a_chunk_is_an_array():
    """Documents have thousands of them."""
    assert encode(Chunk(start=0, end=4, section="Intro")) == b'[0,4,"Intro"]'
    assert decode(b"[0,4]", Chunk) == Chunk(start=0, end=4)


def test_a_document_survives_the_wire():
    """With metadata of every type."""
    document = NewDocument(
        document_id="d", title="t", text="téxt", chunks=(Chunk(start=0, end=4),),
        metadata={"s": "x", "i": 1, "f": 1.5, "b": True, "n": None},
    )  # fmt: skip
    assert decode(encode(document), NewDocument) == document


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"collection": "c", "documents": []}, "documents"),
        ({"collection": "c", "documents": [DOCUMENT] * 257}, "documents"),
        ({"collection": "c", "documents": [DOCUMENT | {"chunks": []}]}, "chunks"),
        ({"collection": "c", "documents": [DOCUMENT | {"title": ""}]}, "title"),
        ({"collection": "c", "documents": [DOCUMENT | {"chunks": [[-1, 2]]}]}, "chunks"),
        ({"collection": "c", "documents": [DOCUMENT | {"metadata": {"k": []}}]}, "metadata"),
        ({"collection": "c", "documents": [DOCUMENT], "fields": {"k": "date"}}, "fields"),
    ],
)  # fmt: skip
def test_a_request_outside_its_limits_names_the_field(message, field):
    """With its path inside the message."""
    with pytest.raises(Fault, match=field):
        decode(encode(message), IngestRequest)


NEW = NewDocument(
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
        replace(NEW, title="u"),
        replace(NEW, text="next"),
        replace(NEW, chunks=(Chunk(start=0, end=3),)),
        replace(NEW, url="https://example.org"),
        replace(NEW, metadata={"year": 2025, "bank": "Fed"}),
    ],
)
def test_every_stored_field_counts_in_the_revision(changed):
    """A changed document is replaced."""
    assert revision_of(changed) != revision_of(NEW)


def test_the_order_of_metadata_does_not_count():
    """An unchanged document is not embedded again."""
    swapped = replace(NEW, metadata={"bank": "Fed", "year": 2024})
    assert revision_of(swapped) == revision_of(NEW)
    assert len(revision_of(NEW)) == 32


def test_hash_of_a_text_is_what_callers_compute():
    """As `printf %s … | sha256sum`; a changed character changes it."""
    assert hash_of_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_of_text("ab\u0301") != hash_of_text("a\u0301b")

"""Requests that write documents have limits; chunks are arrays on the wire."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.ingest import Chunk, IngestRequest, NewDocument

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

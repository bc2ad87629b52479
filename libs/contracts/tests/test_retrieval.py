"""Requests to the retrieval service have limits; chunks are arrays on the wire."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.retrieval import (
    MAX_TOP_K,
    Chunk,
    GetRequest,
    IngestRequest,
    ListRequest,
    NewDocument,
    SearchRequest,
)

DOCUMENT = {"document_id": "d", "title": "t", "text": "text", "chunks": [[0, 4]]}


def test_a_search_request_needs_a_query_only():
    """Five hits of every readable collection."""
    request = decode(b'{"query": "rates"}', SearchRequest)
    assert (request.limit, request.collections, request.where) == (5, (), None)


def test_the_length_of_a_query_is_checked_by_the_service():
    """It replies invalid_query, which decoding cannot."""
    assert decode(encode({"query": ""}), SearchRequest).query == ""


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
    ("kind", "message", "field"),
    [
        (SearchRequest, {"query": "x", "limit": 0}, "limit"),
        (SearchRequest, {"query": "x", "limit": MAX_TOP_K + 1}, "limit"),
        (SearchRequest, {"query": "x", "collections": ["a b"]}, "collections"),
        (GetRequest, {"document_id": ""}, "document_id"),
        (GetRequest, {"document_id": "x" * 513}, "document_id"),
        (ListRequest, {"limit": 1001}, "limit"),
        (IngestRequest, {"collection": "c", "documents": []}, "documents"),
        (IngestRequest, {"collection": "c", "documents": [DOCUMENT] * 257}, "documents"),
        (IngestRequest, {"collection": "c", "documents": [DOCUMENT | {"chunks": []}]}, "chunks"),
        (IngestRequest, {"collection": "c", "documents": [DOCUMENT | {"title": ""}]}, "title"),
        (IngestRequest, {"collection": "c", "documents": [DOCUMENT | {"chunks": [[-1, 2]]}]}, "chunks"),
        (IngestRequest, {"collection": "c", "documents": [DOCUMENT | {"metadata": {"k": []}}]}, "metadata"),
        (IngestRequest, {"collection": "c", "documents": [DOCUMENT], "fields": {"k": "date"}}, "fields"),
    ],
)  # fmt: skip
def test_a_request_outside_its_limits_names_the_field(kind, message, field):
    """With its path inside the message."""
    with pytest.raises(Fault, match=field):
        decode(encode(message), kind)

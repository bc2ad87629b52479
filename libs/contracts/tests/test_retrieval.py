"""Requests that read documents have limits."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault, decode, encode
from searchbus_contracts.retrieval import (
    MAX_TOP_K,
    Explanation,
    GetRequest,
    LeftOut,
    Leg,
    ListRequest,
    Reading,
    SearchReply,
    SearchRequest,
)


def test_a_search_request_needs_a_query_only():
    """Five hits of every readable collection."""
    request = decode(b'{"query": "rates"}', SearchRequest)
    assert (request.limit, request.collections, request.where) == (5, (), None)


def test_the_length_of_a_query_is_checked_by_the_service():
    """It replies invalid_query, which decoding cannot."""
    assert decode(encode({"query": ""}), SearchRequest).query == ""


@pytest.mark.parametrize(
    ("kind", "message", "field"),
    [
        (SearchRequest, {"query": "x", "limit": 0}, "limit"),
        (SearchRequest, {"query": "x", "limit": MAX_TOP_K + 1}, "limit"),
        (SearchRequest, {"query": "x", "collections": ["a b"]}, "collections"),
        (GetRequest, {"document_id": ""}, "document_id"),
        (GetRequest, {"document_id": "x" * 513}, "document_id"),
        (ListRequest, {"limit": 1001}, "limit"),
    ],
)  # fmt: skip
def test_a_request_outside_its_limits_names_the_field(kind, message, field):
    """With its path inside the message."""
    with pytest.raises(Fault, match=field):
        decode(encode(message), kind)


def test_explained_reply_survives_the_wire():
    """A leg without a rank, boosts, and a reason of a newer peer."""
    meaning = Leg(score=0.4, share=0.1)
    entry = LeftOut(
        collection="c", document_id="d", chunk_id="k", title="T", reason="new", score=1.0,
        cosine=0.4, explanation=Explanation(rank=3, meaning=meaning, boosts={"date": 0.6}),
    )  # fmt: skip
    reply = SearchReply(hits=(), readings={"c": Reading(words="q", ranked=7)}, left_out=(entry,))
    assert decode(encode(reply), SearchReply) == reply


def test_plain_reply_has_no_field_of_it():
    """Off by default, and nothing is sent."""
    assert encode(SearchReply(hits=())) == b'{"hits":[]}'

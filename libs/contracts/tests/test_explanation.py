"""An explanation survives the wire."""

from __future__ import annotations

from searchbus_contracts import decode, encode
from searchbus_contracts.retrieval import Explanation, LeftOut, Leg, Reading, SearchReply


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

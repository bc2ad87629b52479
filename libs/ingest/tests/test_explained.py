"""Explanations as lines of text."""

from __future__ import annotations

from searchbus_contracts.retrieval import Explanation, LeftOut, Leg, Reading, SearchReply
from searchbus_ingest.explained import explained, rest_explained

MEANING = Leg(rank=1, score=0.81, share=0.55)


def test_hit_is_a_sum():
    """Its place, its score, both legs and the boosts."""
    words = Leg(rank=4, score=11.24, share=0.25)
    explanation = Explanation(rank=1, meaning=MEANING, words=words, boosts={"date": 0.6})
    assert explained(1.4, explanation) == (
        "#1 1.40 = meaning 0.55 (rank 1, cosine 0.81) + words 0.25 (rank 4, BM25 11.24) + date 0.60"
    )


def test_leg_without_a_rank_is_no_candidate():
    """A passage that only one of the searches found."""
    alone = Explanation(rank=2, meaning=Leg(score=0.3, share=0.0))
    assert explained(0.0, alone) == "#2 0.00 = meaning 0.00 (no candidate, cosine 0.30)"


def test_reading_and_what_was_left_out_have_a_line_each():
    """Nothing else is printed; without `explain`, nothing."""
    reply = SearchReply(
        hits=(),
        readings={
            "fomc": Reading(words="q", preferences={"date": 0.6}, order="first", ranked=9),
            "laws": Reading(words="q"),
        },
        left_out=(
            LeftOut(
                collection="laws", document_id="d", chunk_id="c", title="Act", reason="far",
                score=0.5, cosine=0.41, relevance=0.12, floor=0.3,
            ),
        ),
    )  # fmt: skip
    assert list(rest_explained(reply)) == [
        "fomc: 9 passages ranked for 'q'; date +0.60, the first by date",
        "laws: 0 passages ranked for 'q'; no date, type or order",
        "left out (far): Act, score 0.50, relevance 0.12 of at least 0.30",
    ]
    assert list(rest_explained(SearchReply(hits=()))) == []

"""Decisions in every form that statements have had."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from searchbus_retrieval.decisions import read_decision


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Committee voted to raise its target for the federal funds rate 25 basis points to 5 percent.",
         ("raise", 5.0, 5.0, 25)),
        ("The Committee decided today to lower its target for the federal funds rate by 1/2 percentage point "
         "to 2-1/2 percent.", ("lower", 2.5, 2.5, -50)),
        ("The Committee decided to lower the target range for the federal funds rate by 1/4 percentage point "
         "to 3\u20111/2 to 3\u20113/4 percent.", ("lower", 3.5, 3.75, -25)),
        ("The Committee decided to maintain the target range for the federal funds rate at 5-1/4 to 5-1/2 "
         "percent.", ("maintain", 5.25, 5.5, 0)),
        ("The Committee decided to raise the target range for the federal funds rate to 4\u00e2\u0080\u00911/2 to "
         "4-3/4 percent.", ("raise", 4.5, 4.75, None)),
        ("The Committee decided today to establish a target range for the federal funds rate of 0 to 1/4 percent.",
         ("establish", 0.0, 0.25, None)),
        ("The Committee reaffirmed its view that the current 0 to 1/4 percent target range for the federal funds "
         "rate remains appropriate.", ("maintain", 0.0, 0.25, 0)),
        ("The Committee decided today to leave its target for the federal funds rate unchanged.",
         ("maintain", None, None, 0)),
    ],
)  # fmt: skip
def test_decision_is_read_in_its_forms(text, expected):
    """The change only where it is said."""
    decision, problem = read_decision(f"Growth is solid. {text} Inflation is low.")
    assert problem is None
    assert decision is not None
    assert (decision.way, decision.low, decision.high, decision.change_bp) == expected
    assert decision.start == 17


def test_decision_that_cannot_be_read_is_a_problem():
    """And no decision; what is only expected is neither."""
    text = "The Committee decided to set its target for the federal funds rate as it sees fit."
    decision, problem = read_decision(text)
    assert decision is None
    assert problem is not None
    assert read_decision("It may warrant keeping the target federal funds rate below.") == (
        None,
        None,
    )
    assert read_decision("") == (None, None)


def test_decisions_of_the_corpus_are_read_and_follow_each_other(reference):
    """221 of 252 statements have one; the change that is said is that from the one before."""
    rows = [json.loads(line) for line in (reference / "data" / "fomc" / "docs.jsonl").open()]
    statements = sorted((r["date"], r["text"]) for r in rows if r["type"] == "statement")
    found = [(date, *read_decision(text)) for date, text in statements]
    assert [problem for _, _, problem in found if problem] == []
    decisions = [(date, decision) for date, decision, _ in found if decision is not None]
    assert len(decisions) == 221
    known = [(date, d) for date, d in decisions if d.low is not None]
    wrong = [
        date
        for (_, before), (date, now) in pairwise(known)
        if now.change_bp is not None and round(100 * (now.low - before.low)) != now.change_bp
    ]
    assert wrong == ["2008-01-22"]  # the decision of the evening before, said again

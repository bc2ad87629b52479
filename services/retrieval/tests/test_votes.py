"""Votes in every form that statements and minutes have had; the names are invented."""

from __future__ import annotations

import json

import pytest

from searchbus_retrieval.votes import Dissent, read_votes, surname

STATEMENT = (
    "Inflation is elevated. Voting for the FOMC monetary policy action were: Jane Q. Doe, Chairman; "
    "William J. Roe, Vice Chairman; Robert D. McPoe, Jr.; and Zoe Lee. "
)
REASONED = "who preferred to lower the target range by 1/2 percentage point"


def read(text: str):
    votes, problems = read_votes(text)
    assert problems == []
    return votes


def against(text: str) -> list[tuple[str, str]]:
    (vote,) = read(text)
    return [(dissent.name, dissent.reason) for dissent in vote.dissents]


def test_vote_of_a_statement_is_for_and_against():
    """Offices are no part of a name."""
    text = f"{STATEMENT}Voting against was Ann B. Poe, {REASONED}. In a related action, no."
    (vote,) = read(text)
    assert vote.votes_for == ("Jane Q. Doe", "William J. Roe", "Robert D. McPoe", "Zoe Lee")
    assert vote.dissents == (Dissent("Ann B. Poe", REASONED),)
    assert (vote.start, vote.end) == (23, text.index(" In a related"))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (f"Voting against this action were Ann B. Poe, {REASONED}; and Cy Day and Bo Fry, who did not.",
         [("Ann B. Poe", REASONED), ("Cy Day", "who did not"), ("Bo Fry", "who did not")]),
        ('Voting against the policy was Cy Day, who objected to "a time, Ann Poe, and others," at all.',
         [("Cy Day", 'who objected to "a time, Ann Poe, and others," at all')]),
        ("Voting against the action were: Edward M. Gray and Robert D. McPoe, Jr. Governor Gray and "
         "President McPoe preferred a reduction.", [("Edward M. Gray", ""), ("Robert D. McPoe", "")]),
    ],
)  # fmt: skip
def test_several_against_have_their_own_reasons(said, names):
    """A name in the reason of another is none of theirs."""
    assert against(STATEMENT + said) == names


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("Votes against this action: None.", []),
        ("Vote against this action: Mr. Poe.", ["Poe"]),
        ("Votes against this action: Messrs. Poe and Day. Messrs. Poe and Day dissented.", ["Poe", "Day"]),
        ("Voting against this action: Ms. Poe Ms. Poe dissented because of pears.", ["Poe"]),
        ("\n\nVoting against this action: Ann B. Poe\n\nPresident Poe was against it.", ["Ann B. Poe"]),
        ("Votes against these actions: None", []),
    ],
)  # fmt: skip
def test_vote_of_minutes_is_read_in_its_forms(said, names):
    """Titles are no part of a name; a comma that is lacking joins none."""
    (vote,) = read(f"Votes for this action: Messrs. Doe, Roe Lee, Ms. Gray, and Mr. Fry. {said}")
    assert vote.votes_for == ("Doe", "Roe", "Lee", "Gray", "Fry")
    assert [dissent.name for dissent in vote.dissents] == names


def test_vote_ends_with_its_reasons():
    """In the sentences that follow, up to another subject."""
    reasons = "Mr. Poe dissented because of pears. He thought that they were poor."
    text = f"Votes for this action: Ms. Doe. Votes against this action: Mr. Poe. {reasons}"
    (vote,) = read(f"{text} It was agreed that the next meeting be held. Mr. Poe left.")
    assert vote.end == len(text)


@pytest.mark.parametrize(
    "said",
    ["Voting against was the member of the north.", "Votes against this action: 3 of 12 members.",
     "Voting against were Ann B. Poe.", "Voting against was the Federal Reserve, who said no."],
)  # fmt: skip
def test_vote_that_cannot_be_read_is_a_problem_and_no_vote(said):
    """Nothing is guessed."""
    votes, problems = read_votes(STATEMENT + said)
    assert votes == []
    assert len(problems) == 1


def test_text_without_a_vote_has_none():
    """Nor does a long one of the same word take long."""
    assert read_votes("Voters were for it. They voted.") == ([], [])
    assert read_votes("Voting for " * 20_000)[0] == []
    for names in ("Ann, ", "Ann ", "Ann B. "):
        votes, problems = read_votes("Voting against was " + names * 20_000 + "who did not.")
        assert votes == []
        assert len(problems) == 1


@pytest.mark.parametrize(
    ("name", "last"),
    [("Robert D. McPoe, Jr.", "McPoe"), ("Poe", "Poe"), ("Sarah Bloom Roe", "Roe")],
)
def test_surname_is_the_last_name(name, last):
    """Without a junior."""
    assert surname(name) == last


def test_every_vote_of_the_corpus_is_read(reference):
    """195 of 532 have somebody against; none cannot be read."""
    found = [
        read_votes(json.loads(line)["text"])
        for line in (reference / "data" / "fomc" / "docs.jsonl").open()
    ]
    votes = [vote for some, _ in found for vote in some]
    assert [problem for _, problems in found for problem in problems] == []
    assert len(votes) == 532
    assert sum(bool(vote.dissents) for vote in votes) == 195
    miran = [v for v in votes if any(d.name == "Stephen I. Miran" for d in v.dissents)]
    assert len(miran) == 12

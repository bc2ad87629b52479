"""Votes and decisions that are read of documents."""

from __future__ import annotations

import json
import logging
from itertools import pairwise

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.documents.facts import fact_fields, facts_of, read_decision
from searchbus_retrieval.documents.votes import read_votes, surname
from searchbus_retrieval.library import Library
from searchbus_retrieval.question.profiles import Profile, load_profiles
from searchbus_retrieval.tools import search_corpus

from ..conftest import document

PROFILE = load_profiles()["fomc"]
ROLL = "Voting for the monetary policy action were Jane Q. Doe, Chair; and Zoe Lee. "
AGAINST = "Voting against this action was Ann B. Poe, who preferred to lower the target range."
DECISION = (
    "The Committee decided to maintain the target range for the federal funds rate at 5-1/4 to "
    "5-1/2 percent. "
)
REST = "Recent indicators suggest that the harvest of pears has been poor in most districts. " * 9


def statement(day: str, vote: str, *, decision: str = DECISION, rest: str = REST):
    return document(
        f"statement-{day}", f"{rest}{decision}{rest}{vote}", collection="fomc",
        title=f"FOMC Statement, {day}", url="https://example.org/", metadata={"date": day, "type": "statement"},
    )  # fmt: skip


@pytest.fixture
async def votes_library(library):
    """Three statements; in the second one somebody voted against."""
    for day, vote in (
        ("2024-03-20", ROLL), ("2024-05-01", ROLL + AGAINST), ("2024-06-12", ROLL)
    ):  # fmt: skip
        assert (await library.store("fomc", statement(day, vote))).outcome == "stored"
    return library


def test_facts_of_a_document_are_those_that_its_profile_declares():
    """Names with their surnames; a vote against is a passage of its own."""
    new = statement("2024-05-01", ROLL + AGAINST)
    facts = facts_of(PROFILE, new)
    assert facts.problems == []
    assert facts.fields == {
        "dissenters": ["Ann B. Poe", "Poe"], "dissents": 1,
        "voters": ["Ann B. Poe", "Poe", "Jane Q. Doe", "Doe", "Zoe Lee", "Lee"],
        "decision": "maintain", "target_low": 5.25, "target_high": 5.5, "change_bp": 0,
    }  # fmt: skip
    own = [passage for passage in facts.passages if passage.own]
    assert [new.text[p.start : p.end] for p in own] == [ROLL + AGAINST]
    assert set(facts.fields) == set(fact_fields(PROFILE))
    assert facts_of(Profile(), new).fields == {}


async def test_passages_of_facts_are_text_of_the_document_and_counted(votes_library):
    """The document stays as it was ingested."""
    new = statement("2024-05-01", ROLL + AGAINST)
    stored = await votes_library.get_from(["fomc"], new.document_id)
    assert stored.text == new.text
    assert stored.chunk_count == len(new.chunks) + 1
    assert (await votes_library.store("fomc", new)).chunks == stored.chunk_count
    info = next(i for i in await votes_library.list_collections() if i.name == "fomc")
    pages, _ = await votes_library.list_documents("fomc", limit=10)
    assert info.chunks == sum(page.chunk_count for page in pages)
    hit = (await search_corpus(votes_library, "Why did Poe dissent?", 1, None)).hits[0]
    assert hit.text == ROLL + AGAINST == new.text[hit.start : hit.end]


@pytest.mark.parametrize(
    "question", ["Why did Poe dissent?", "Poe voting against", "Who dissented?", "Did anyone vote against it?"]
)  # fmt: skip
async def test_question_about_a_dissent_finds_the_vote(votes_library, question):
    """By the name, or of anybody."""
    hit = (await search_corpus(votes_library, question, 3, None)).hits[0]
    assert hit.metadata["date"] == "2024-05-01"
    assert AGAINST in hit.text


@pytest.mark.parametrize(
    ("where", "days"),
    [
        ({"dissenters": "Poe"}, {"2024-05-01"}), ({"dissenters": "Ann B. Poe"}, {"2024-05-01"}),
        ({"dissents": {"$gte": 1}}, {"2024-05-01"}), ({"dissenters": "Doe"}, set()),
        ({"$and": [{"voters": "Doe"}, {"dissents": 0}]}, {"2024-03-20", "2024-06-12"}),
        ({"target_high": 5.5}, {"2024-03-20", "2024-05-01", "2024-06-12"}), ({"change_bp": {"$lt": 0}}, set()),
        ({"decision": {"$in": ["raise", "lower"]}}, set()),
    ],
)  # fmt: skip
async def test_facts_are_fields_of_filters(votes_library, where, days):
    """Beside the metadata, which they do not change."""
    hits = (await search_corpus(votes_library, "pears", 40, where)).hits
    assert {hit.metadata["date"] for hit in hits} == days
    assert all(set(hit.metadata) == {"date", "type"} for hit in hits)


@pytest.mark.parametrize(
    ("question", "probable"),
    [
        ("Why did Ann Poe dissent in May 2024?", True), ("Why did Zoe Lee dissent in May 2024?", False),
        ("What was decided when they lowered rates in May 2024?", False),
        ("What was decided when they maintained the target range in May 2024?", True),
        ("What was decided at the meeting in July 2024?", False),
        ("What did the statement say of pears in July 2024?", True),
    ],
)  # fmt: skip
async def test_what_the_facts_deny_has_no_probable_hit(votes_library, question, probable):
    """A vote against of somebody who voted for it, and a decision that was another one."""
    hits = (await search_corpus(votes_library, question, 5, None)).hits
    assert (max(hit.relevance for hit in hits) > 0.1) == probable


async def test_month_without_a_meeting_is_denied_only_where_a_profile_names_the_date(library):
    """In another collection a document with a date need not be of a meeting."""
    new = document("a", REST, metadata={"date": "2024-05-01"})
    assert (await library.store("c", new)).outcome == "stored"
    (hit, *_) = await library.search("c", "harvest of pears at the June 2024 meeting", limit=1)
    assert hit.relevance > 0.1


async def test_collection_without_facts_has_no_such_fields(library):
    """Its passages are as before."""
    new = document("a", REST + ROLL + AGAINST, metadata={"type": "statement"})
    assert (await library.store("c", new)).chunks == len(new.chunks)
    with pytest.raises(Fault, match="Unknown field 'dissenters'"):
        await library.search("c", "pears", where={"dissenters": "Poe"})


async def test_fact_that_cannot_be_read_is_reported_and_left_out(library, caplog):
    """The document is stored without it."""
    new = statement("2024-05-01", ROLL + "Voting against was the member of the north.")
    with caplog.at_level(logging.WARNING):
        assert (await library.store("fomc", new)).outcome == "stored"
    assert "a fact cannot be read" in caplog.text
    assert document_id("fomc", "statement-2024-05-01") in caplog.text
    assert not (await search_corpus(library, "pears", 5, {"dissenters": "north"})).hits


async def test_documents_of_an_earlier_release_are_read_again(store, embedder):
    """They are listed without a revision, so that they are sent again, and are then replaced."""
    before = await Library.open(store, embedder, profiles={})
    new = statement("2024-05-01", ROLL + AGAINST)
    await before.store("fomc", new)
    library = await Library.open(store, embedder)
    (listed,), _ = await library.list_documents("fomc", limit=10)
    assert listed.revision == ""
    assert (await library.store("fomc", new)).outcome == "replaced"
    assert (await library.store("fomc", new)).outcome == "unchanged"
    (listed,), _ = await library.list_documents("fomc", limit=10)
    assert listed.revision
    assert (await search_corpus(library, "pears", 40, {"dissenters": "Poe"})).hits


async def test_replaced_and_deleted_documents_take_their_facts_along(votes_library):
    """Nothing of the vote stays."""
    await votes_library.store("fomc", statement("2024-05-01", ROLL))
    assert not (await search_corpus(votes_library, "pears", 40, {"dissenters": "Poe"})).hits
    await votes_library.delete("fomc", (document_id("fomc", "statement-2024-03-20"),))
    hits = (await search_corpus(votes_library, "pears", 40, {"voters": "Doe"})).hits
    assert {hit.metadata["date"] for hit in hits} == {"2024-05-01", "2024-06-12"}


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


STATEMENT = (
    "Inflation is elevated. Voting for the FOMC monetary policy action were: Jane Q. Doe, Chairman; "
    "William J. Roe, Vice Chairman; Robert D. McPoe, Jr.; and Zoe Lee. "
)
REASONED = "who preferred to lower the target range by 1/2 percentage point"


def read(text: str):
    votes, problems = read_votes(text)
    assert problems == []
    return votes


def test_vote_of_a_statement_is_for_and_against():
    """Offices are no part of a name."""
    text = f"{STATEMENT}Voting against was Ann B. Poe, {REASONED}. In a related action, no."
    (vote,) = read(text)
    assert vote.votes_for == ("Jane Q. Doe", "William J. Roe", "Robert D. McPoe", "Zoe Lee")
    assert vote.dissents == ("Ann B. Poe",)
    assert (vote.start, vote.end) == (23, text.index(" In a related"))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        (f"Voting against this action were Ann B. Poe, {REASONED}; and Cy Day and Bo Fry, who did not.",
         ("Ann B. Poe", "Cy Day", "Bo Fry")),
        ('Voting against the policy was Cy Day, who objected to "a time, Ann Poe, and others," at all.',
         ("Cy Day",)),
        ("Voting against the action were: Edward M. Gray and Robert D. McPoe, Jr. Governor Gray and "
         "President McPoe preferred a reduction.", ("Edward M. Gray", "Robert D. McPoe")),
    ],
)  # fmt: skip
def test_several_against_are_told_from_names_in_their_reasons(said, names):
    """Whom a reason quotes has not voted against."""
    (vote,) = read(STATEMENT + said)
    assert vote.dissents == names


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
    assert list(vote.dissents) == names


async def test_each_vote_of_a_document_has_its_own_dissenters(votes_library):
    """The one in which the other only voted for the action is not found in its place."""
    other = AGAINST.replace("Ann B. Poe", "Cy Roe")
    new = statement("2024-07-31", f"{ROLL}{other}\n\n{ROLL}{AGAINST}\n\n")
    await votes_library.store("fomc", new)
    for name, text in (("Poe", AGAINST), ("Roe", other)):
        where = {"dissenters": name, "document_date": "2024-07-31"}
        hits = (await search_corpus(votes_library, f"Why did {name} dissent?", 9, where)).hits
        votes = [hit for hit in hits if "Voting" in hit.text and hit.text.startswith(ROLL[:10])]
        assert text.strip() in votes[0].text


async def test_vote_of_the_date_comes_before_others_of_the_same_person(votes_library):
    """In whichever order they were stored."""
    earlier = statement("2019-05-01", f"{ROLL}{AGAINST} ")
    await votes_library.store("fomc", earlier)
    for question, day in (
        ("Why did Poe dissent in May 2019?", "2019-05-01"),
        ("Why did Poe dissent in May 2024?", "2024-05-01"),
    ):
        hits = (await search_corpus(votes_library, question, 3, None)).hits
        assert hits[0].metadata["date"] == day, question


def test_absence_is_not_the_end_of_a_vote():
    """Reasons follow it."""
    said = "Votes for this action: Ms. Doe. Votes against this action: Mr. Poe "
    reasons = "Absent and not voting: Mr. Roe Mr. Poe dissented because of pears."
    (vote,) = read(said + reasons)
    assert (vote.dissents, vote.end) == (("Poe",), len(said + reasons))


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
    miran = [v for v in votes if "Stephen I. Miran" in v.dissents]
    assert len(miran) == 12

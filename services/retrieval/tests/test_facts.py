"""Facts of documents: stored with them, and found by questions and filters."""

from __future__ import annotations

import logging

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.facts import fact_fields, facts_of
from searchbus_retrieval.fomc import search
from searchbus_retrieval.library import Library
from searchbus_retrieval.profiles import Profile, load_profiles

from .conftest import document

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
    stored = await votes_library.get("fomc", new.document_id)
    assert stored.text == new.text
    assert stored.chunk_count == len(new.chunks) + 1
    assert (await votes_library.store("fomc", new)).chunks == stored.chunk_count
    info = next(i for i in await votes_library.list_collections() if i.name == "fomc")
    pages, _ = await votes_library.list_documents("fomc", limit=10)
    assert info.chunks == sum(page.chunk_count for page in pages)
    hit = (await search(votes_library, "Why did Poe dissent?", 1, None))[0]
    assert hit.text == ROLL + AGAINST == new.text[hit.start : hit.end]


@pytest.mark.parametrize(
    "question", ["Why did Poe dissent?", "Poe voting against", "Who dissented?", "Did anyone vote against it?"]
)  # fmt: skip
async def test_question_about_a_dissent_finds_the_vote(votes_library, question):
    """By the name, or of anybody."""
    hit = (await search(votes_library, question, 3, None))[0]
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
    hits = await search(votes_library, "pears", 40, where)
    assert {hit.metadata["date"] for hit in hits} == days
    assert all(set(hit.metadata) == {"date", "type"} for hit in hits)


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
    assert await search(library, "pears", 5, {"dissenters": "north"}) == []


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
    assert await search(library, "pears", 40, {"dissenters": "Poe"})


async def test_replaced_and_deleted_documents_take_their_facts_along(votes_library):
    """Nothing of the vote stays."""
    await votes_library.store("fomc", statement("2024-05-01", ROLL))
    assert await search(votes_library, "pears", 40, {"dissenters": "Poe"}) == []
    await votes_library.delete("fomc", (document_id("fomc", "statement-2024-03-20"),))
    hits = await search(votes_library, "pears", 40, {"voters": "Doe"})
    assert {hit.metadata["date"] for hit in hits} == {"2024-05-01", "2024-06-12"}

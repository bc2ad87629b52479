"""`searchbus search`."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from searchbus_cli.main import app
from searchbus_contracts.retrieval import Explanation, LeftOut, Leg, Reading, SearchReply
from searchbus_ingest.search_command import explained, rest_explained
from searchbus_ingest.sending import send
from searchbus_ingest.sources.item import make_document
from searchbus_runtime import connection

from .conftest import bus_with


@pytest.fixture
def run(command_bus, retrieval, monkeypatch, tmp_path):
    async def fill():
        made = make_document(
            "w", collection="c", source_id="w", title="Whales", text="They sing [loudly]."
        )
        await send(await bus_with(retrieval), "c", [made])

    asyncio.run(fill())
    return lambda *given: CliRunner().invoke(app, ["search", *given, "--data", str(tmp_path)])


def test_hits_are_shown_with_title_section_and_text(run):
    """Brackets of a text are not markup."""
    done = run("sing")
    assert done.exit_code == 0
    assert "Whales › Songs" in done.stdout
    assert "They sing [loudly]." in done.stdout


def test_explained_hits_have_their_reasons(run):
    """Off by default; then the collection's reading and what was left out follow the hits."""
    assert "meaning" not in run("sing").stdout
    done = run("sing", "--explain")
    assert "#1 1.00 = meaning 1.00 (rank 1, cosine 0.50)" in done.stdout
    assert "c: 1 passages ranked for 'sing'" in done.stdout


def test_collections_that_failed_are_named(run, retrieval):
    """Beside the hits of the others; without any the search has failed."""
    retrieval.failed = {"wiki": "unavailable"}
    assert "could not be searched: wiki (unavailable)" in run("sing").stdout
    none = run("zebra")
    assert (none.exit_code, "nothing found" in none.stdout) == (1, False)
    assert "could not be searched: wiki (unavailable)" in " ".join(none.stderr.split())


def test_json_has_the_whole_reply(run):
    """As it came over the bus."""
    assert json.loads(run("sing", "--json").stdout)["hits"][0]["title"] == "Whales"


def test_nothing_found_is_said(run):
    """The exit code is 0."""
    done = run("zebra")
    assert (done.exit_code, done.stdout) == (0, "nothing found\n")


def test_who_searches_before_anything_is_stored_is_told_what_to_do(run, retrieval):
    """The first command of many."""
    retrieval.documents.clear()
    assert "there is no collection yet; fill one: searchbus ingest" in run("zebra").stdout


def test_failure_is_shown_and_exits_with_one(run, monkeypatch):
    """Also where no stack is running."""
    done = run("fail")
    assert done.exit_code == 1
    assert "no collection 'x'" in done.stderr
    monkeypatch.setattr(connection, "find_bus", lambda folder: None)
    assert "searchbus up" in " ".join(run("sing").stderr.split())


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

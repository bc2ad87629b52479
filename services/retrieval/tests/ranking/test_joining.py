"""Passages that stand side by side."""

from __future__ import annotations

import pytest

from searchbus_contracts.retrieval import SearchHit
from searchbus_retrieval.documents.reading import DocumentReader
from searchbus_retrieval.ranking.joining import holding, join

from ..conftest import document


def hit(
    start: int | None, end: int | None, document_id: str = "d", *, cosine: float = 0.5, **more
) -> SearchHit:
    return SearchHit(
        collection="c", document_id=document_id, chunk_id=f"{document_id}{start}", title="", text="",
        score=1.0, cosine=cosine, literal=cosine == 1.0, start=start, end=end, **more,
    )  # fmt: skip


def places(*hits: SearchHit, limit: int = 9) -> list[tuple[str, int | None, int | None]]:
    return [(one.best.chunk_id, one.start, one.end) for one in join(hits, limit)[0]]


def test_neighbours_are_joined_at_the_place_of_the_better_one():
    """Before it and behind it."""
    assert places(hit(500, 900), hit(0, 400), hit(901, 1200)) == [
        ("d500", 500, 1200),
        ("d0", 0, 400),
    ]
    assert places(hit(500, 900), hit(0, 499)) == [("d500", 0, 900)]


@pytest.mark.parametrize(
    "other",
    [
        hit(905, 1200),
        hit(901, 1200, "e"),
        hit(800, 1200),
        hit(901, 9000),
        hit(None, None),
        hit(901, 1200, section="II"),
    ],
    ids=[
        "further away",
        "another document",
        "overlapping",
        "too long",
        "no place",
        "another section",
    ],
)
def test_others_stay_alone(other):
    """Text is joined only where nothing stands between."""
    assert len(places(hit(500, 900), other)) == 2


def test_neighbours_of_the_first_hits_are_taken_from_all_of_them():
    """What is behind the last wanted one is left over."""
    found, rest = join([hit(0, 400), hit(900, 999, "e"), hit(50, 99, "f"), hit(401, 800)], 2)
    assert [(one.best.chunk_id, one.end) for one in found] == [("d0", 800), ("e900", 999)]
    assert [one.chunk_id for one in rest] == ["f50"]


def test_a_hit_takes_one_neighbour_so_that_there_are_as_many_as_wanted():
    """Twenty of the forty that are looked at, however they stand."""
    assert places(hit(500, 900), hit(0, 499), hit(901, 1200)) == [
        ("d500", 0, 900),
        ("d901", 901, 1200),
    ]
    found, _ = join([hit(50 * at, 50 * at + 49) for at in range(40)], 20)
    assert len(found) == 20


def test_joined_hit_is_as_near_as_the_nearest():
    """Whichever of them was found first."""
    for cosine, most, literal in ((0.7, 0.7, False), (1.0, 1.0, True), (0.5, 0.6, False)):
        better, other = (
            hit(401, 800, cosine=0.6, section="I"),
            hit(0, 400, cosine=cosine, section="I"),
        )
        ((joined,), _) = join([better, other], 1)
        (whole,) = joined.with_text("text")
        assert (whole.text, whole.start, whole.end, whole.section) == ("text", 0, 800, "I")
        assert (whole.chunk_id, whole.cosine, whole.literal) == ("d401", most, literal)
        assert joined.with_text(None) == [better, other]


def test_joined_hit_holds_what_its_passages_hold():
    """A vote in the passage behind the better one, say."""
    found, _ = join([hit(0, 400), hit(401, 800), hit(900, 999, "e")], 2)
    assert holding(found, {"d401"}) == {"d0"}


async def test_document_that_was_replaced_during_the_search_has_its_passages_alone(
    library, monkeypatch
):
    """Each as it was found, also where the document is shorter now."""
    text = "Pears were sweet, and the plums, too. " * 40
    await library.store("c", document("pears", text))
    found = DocumentReader.spans

    async def replaced(reader, collection, wanted):
        await library.store("c", document("pears", text[:300]))
        return await found(reader, collection, wanted)

    monkeypatch.setattr(DocumentReader, "spans", replaced)
    hits = await library.search("c", "sweet pears", limit=5)
    assert sorted((one.start, one.end) for one in hits) == [(0, 1000), (1000, 1520)]


async def test_text_is_that_of_the_document(library):
    """White space between the passages belongs to it; one passage a document stays alone."""
    text = " ".join(
        f"Pears of {year} were sweet, and the plums, too." for year in range(1980, 2015)
    )
    new = document("pears", text)
    await library.store("c", new)
    (found,) = await library.search("c", "sweet pears", limit=5)
    assert found.text == text[found.start : found.end]
    assert len(found.text) > 1000
    (alone,) = await library.search("c", "sweet pears", limit=5, per_document=True)
    assert len(alone.text) <= 1000

"""Passages that stand side by side."""

from __future__ import annotations

import pytest

from searchbus_contracts.retrieval import SearchHit
from searchbus_retrieval.ranking.joining import join

from ..conftest import document


def hit(
    start: int | None, end: int | None, document_id: str = "d", *, cosine: float = 0.5
) -> SearchHit:
    return SearchHit(
        collection="c", document_id=document_id, chunk_id=f"{document_id}{start}", title="", text="",
        score=1.0, cosine=cosine, literal=cosine == 1.0, start=start, end=end,
    )  # fmt: skip


def places(*hits: SearchHit, limit: int = 9) -> list[tuple[str, int | None, int | None]]:
    return [(one.hit.chunk_id, one.start, one.end) for one in join(hits, limit)[0]]


def test_neighbours_are_joined_at_the_place_of_the_better_one():
    """Before it and behind it."""
    assert places(hit(500, 900), hit(0, 400), hit(901, 1200)) == [
        ("d500", 500, 1200),
        ("d0", 0, 400),
    ]
    assert places(hit(500, 900), hit(0, 499)) == [("d500", 0, 900)]


@pytest.mark.parametrize(
    "other",
    [hit(905, 1200), hit(901, 1200, "e"), hit(800, 1200), hit(901, 9000), hit(None, None)],
    ids=["further away", "another document", "overlapping", "too long", "no place"],
)
def test_others_stay_alone(other):
    """Text is joined only where nothing stands between."""
    assert len(places(hit(500, 900), other)) == 2


def test_neighbours_of_the_first_hits_are_taken_from_all_of_them():
    """What is behind the last wanted one is left over."""
    found, rest = join([hit(0, 400), hit(900, 999, "e"), hit(50, 99, "f"), hit(401, 800)], 2)
    assert [(one.hit.chunk_id, one.end) for one in found] == [("d0", 800), ("e900", 999)]
    assert [one.chunk_id for one in rest] == ["f50"]


def test_joined_hit_is_as_near_as_the_nearest():
    """Whichever of them was found first."""
    ((near,), _), ((literal,), _) = (
        join([hit(0, 400, cosine=0.6), hit(401, 800, cosine=cosine)], 1) for cosine in (0.7, 1.0)
    )
    assert (near.hit.cosine, near.hit.literal) == (0.7, False)
    assert literal.hit.literal
    ((better,), _) = join([hit(0, 400, cosine=0.6), hit(401, 800, cosine=0.5)], 1)
    assert better.hit.cosine == 0.6


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

"""What unrelated questions find in a collection is measured once and kept with it."""

from __future__ import annotations

import pytest

from searchbus_retrieval import background
from searchbus_retrieval.background import UNRELATED, Background, Backgrounds
from searchbus_vectors.hash_embedder import HashEmbedder

from .conftest import document


class Asked(HashEmbedder):
    """Notes what it embeds."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def _embed_query(self, text):
        self.queries.append(text)
        return await super()._embed_query(text)


class Clock:
    """Seconds that pass when a test says so."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def fill(library, first: int, count: int) -> None:
    for number in range(first, first + count):
        await library.store(
            "c", document(str(number), f"Whales sing song number {number}. Loudly.")
        )


async def test_background_is_measured_once_and_survives_a_restart(library, store):
    """Another process reads it and asks nothing."""
    await fill(library, 0, 5)
    asked = Asked()
    first = await Backgrounds(store).of("c", asked)
    assert first.passages == 5
    assert set(UNRELATED) < set(asked.queries)
    assert "Whales sing song number" in " ".join(asked.queries)
    again = Asked()
    assert await Backgrounds(store).of("c", again) == first
    assert again.queries == []


async def test_background_is_measured_again_when_the_collection_has_grown(library, store):
    """By half; searches go on with the old one, and the questions are not embedded again."""
    await fill(library, 0, 4)
    clock, asked = Clock(), Asked()
    backgrounds = Backgrounds(store, clock=clock)
    assert (await backgrounds.of("c", asked)).passages == 4
    await fill(library, 4, 4)
    assert (await backgrounds.of("c", asked)).passages == 4
    clock.seconds += background._CHECKED_S
    assert (await backgrounds.of("c", asked)).passages == 4
    await backgrounds._running["c"]
    assert (await backgrounds.of("c", asked)).passages == 8
    assert sum(query == UNRELATED[0] for query in asked.queries) == 1


async def test_background_is_no_document(library, store):
    """Neither for a search nor for a list, and a deleted collection has none."""
    await fill(library, 0, 3)
    await library.search("c", "whales")
    documents, _ = await library.list_documents("c", limit=100)
    assert len(documents) == 3
    (info,) = await library.list_collections()
    assert (info.documents, info.chunks) == (3, 3)
    await library.delete("c", ())
    await fill(library, 0, 1)
    assert (await library._backgrounds.of("c", HashEmbedder())).passages == 1


@pytest.mark.parametrize("method", ["count", "match", "upsert", "get"])
async def test_search_answers_where_no_background_can_be_measured(
    library, store, method, monkeypatch
):
    """By that of most collections; a full disk only forgets it at the end of the process."""
    await fill(library, 0, 3)

    async def fails(*args, **options):
        raise OSError("no space")

    backgrounds = Backgrounds(store)
    monkeypatch.setattr(store, method, fails)
    found = await backgrounds.of("c", HashEmbedder())
    assert (found == Background()) == (method != "upsert")


def test_spread_of_another_size_of_collection_does_not_fit():
    """Nor what an earlier release kept."""
    known = Background(passages=100)
    assert [known.fits(n) for n in (66, 67, 150, 151)] == [False, True, True, False]
    assert not Background(passages=100, version=0).fits(100)
    assert known.distance(known.typical + 2 * known.spread) == pytest.approx(2.0)

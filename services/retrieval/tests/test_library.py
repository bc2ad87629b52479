"""Documents as callers see them."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.library import Library
from searchbus_retrieval.question.profiles import Profile
from searchbus_retrieval.ranking.explaining import MAX_LEFT_OUT
from searchbus_retrieval.searching import Searcher
from searchbus_testing.folders import quick_folder
from searchbus_vectors import load_embedder, open_store
from searchbus_vectors.embedded import EmbeddedStore

from .conftest import document


async def ids(library: Library) -> set[str]:
    hits = await library.search("c", "anything at all about whales", limit=50)
    return {hit.chunk_id for hit in hits}


async def test_stored_document_is_found_and_returned_whole(library):
    """Search gives its passage, get its exact text."""
    text = "Whales sing.\n\nTheir songs travel far under water.  \n"
    await library.store("c", document("w", text, url="https://example.org/w", metadata={"n": 1}))
    hit = (await library.search("c", "songs of whales"))[0]
    assert hit.document_id == document_id("c", "w")
    assert 0 < hit.cosine <= 1
    found = await library.get_from(["c"], hit.document_id)
    assert (found.text, found.url, found.metadata) == (text, "https://example.org/w", {"n": 1})


async def test_storing_again_changes_nothing(library):
    """Same input, same ids, outcome unchanged."""
    first = await library.store("c", document("w", "Whales sing."))
    before = await ids(library)
    again = await library.store("c", document("w", "Whales sing."))
    assert (first.outcome, again.outcome) == ("stored", "unchanged")
    assert await ids(library) == before


async def test_changed_document_replaces_its_passages(library):
    """No passage of the old text is found any more."""
    await library.store("c", document("w", "Whales sing. " * 200))
    result = await library.store("c", document("w", "Dolphins whistle."))
    assert result.outcome == "replaced"
    hits = await library.search("c", "whales", limit=50)
    assert [hit.text for hit in hits] == ["Dolphins whistle."]
    assert (await library.get_from(["c"], document_id("c", "w"))).text == "Dolphins whistle."


async def test_deleted_document_is_gone(library):
    """Neither search nor get finds it."""
    await library.store("c", document("w", "Whales sing."))
    assert await library.delete("c", (document_id("c", "w"), "unknown")) == 1
    assert await library.search("c", "whales") == []
    with pytest.raises(Fault, match="no document"):
        await library.get_from(["c"], document_id("c", "w"))


@pytest.mark.parametrize(
    "size_mib", [0.9, 1, *(pytest.param(size, marks=pytest.mark.slow) for size in (5, 16))]
)
async def test_large_document_is_byte_exact(library, embedder, size_mib, monkeypatch):
    """Up to 16 MiB comes back as it went in."""

    async def no_vectors(texts):
        from searchbus_vectors import Sparse, Vectors

        return [Vectors([1.0] + [0.0] * 383, Sparse([1], [1.0])) for _ in texts]

    monkeypatch.setattr(embedder, "embed_documents", no_vectors)
    unit = "All work and no play; é ✓ 𝄞.\n"
    text = (unit * (int(size_mib * 1024 * 1024) // len(unit.encode()) + 1)).encode()
    text = text[: int(size_mib * 1024 * 1024)].decode(errors="ignore")
    await library.store("c", document("big", text))
    assert (await library.get_from(["c"], document_id("c", "big"))).text == text


@pytest.fixture
async def damaged(embedder):
    """A library whose collection `bad` lost its configuration; `good` and `bad` had a document."""
    with quick_folder() as folder:
        store = await open_store(folder=folder)
        library = await Library.open(store, embedder)
        for name in ("bad", "good"):
            await library.store(name, document("w", f"{name} whales sing.", collection=name))
        await store.close()
        (folder / "bad" / "edge_config.json").unlink()
        store = await open_store(folder=folder)
        yield await Library.open(store, embedder)
        await store.close()


async def test_damaged_collection_is_named_and_the_others_answer(damaged):
    """In the list, in searches over all, and where a document is not found elsewhere."""
    assert "edge_config.json" in damaged.damaged["bad"]
    found = await damaged.search_all((), "whales", limit=5)
    assert ([hit.collection for hit in found.hits], found.failed) == (
        ["good"], {"bad": "unavailable"},
    )  # fmt: skip
    infos = {info.name: info for info in await damaged.list_collections()}
    assert "edge_config.json" in infos["bad"].damage
    assert (infos["good"].documents, infos["good"].damage) == (1, "")
    assert (
        await damaged.get_from(await damaged.names(), document_id("good", "w"))
    ).collection == "good"
    for reading in (
        damaged.get_from(await damaged.names(), document_id("bad", "w")),
        damaged.search("bad", "whales"),
        damaged.list_documents("bad", limit=5),
        damaged.count_documents("bad"),
    ):
        with pytest.raises(Fault, match="'bad' is damaged") as raised:
            await reading
        assert (raised.value.code, raised.value.failure.retryable) == ("unavailable", False)


async def test_damaged_collection_is_not_erased_by_a_document(damaged):
    """Only who deletes it can fill it again."""
    new = document("n", "A new one.", collection="bad")
    with pytest.raises(Fault, match="'bad' is damaged"):
        await damaged.store("bad", new)
    await damaged.delete("bad", ())
    assert (await damaged.store("bad", new)).outcome == "stored"
    assert damaged.damaged == {}


async def test_full_disk_refuses_documents_and_answers_searches(embedder):
    """With `storage_full`; what was acknowledged stays, also after a start on the full disk."""
    free = [100]
    with quick_folder() as folder:
        for run in (1, 2):
            store = EmbeddedStore(folder, min_free_bytes=50, free_bytes=lambda _: free[0])
            library = await Library.open(store, embedder)
            if run == 1:
                await library.store("c", document("w", "Whales sing."))
                free[0] = 49
            for name in ("c", "new"):
                with pytest.raises(Fault, match="storage_full"):
                    await library.store(name, document("v", "Dolphins.", collection=name))
            assert [hit.text for hit in await library.search("c", "whales")] == ["Whales sing."]
            assert (await library.get_from(["c"], document_id("c", "w"))).text == "Whales sing."
            await store.close()


async def test_collection_that_another_process_deleted_is_made_again(store, embedder):
    """By the next document; until then nothing of it is listed."""
    here, there = await Library.open(store, embedder), await Library.open(store, embedder)
    await here.store("c", document("w", "Whales sing.", metadata={"year": 2024}))
    await there.delete("c", ())
    assert await here.names() == []
    assert await here.list_collections() == []
    new = document("v", "Dolphins whistle.", metadata={"year": 2025})
    assert (await here.store("c", new)).outcome == "stored"
    (info,) = await here.list_collections()
    assert (info.documents, info.fields) == (1, {"year": "float"})
    assert [hit.text for hit in await here.search("c", "whistle")] == ["Dolphins whistle."]


@pytest.fixture
async def two(library):
    await library.store("old", document("o", "Whales sing.", collection="old", metadata={"n": 1}))
    await library.store("new", document("n", "Whales and dolphins.", collection="new"))
    return library


async def test_hits_of_all_collections_are_one_list(two):
    """Best first; without names, every collection."""
    reply = await two.search_all((), "whales sing", limit=5)
    assert [hit.collection for hit in reply.hits] == ["old", "new"]
    assert reply.failed == {}


async def test_collection_that_is_named_twice_is_searched_once(two):
    """It would take the places of other hits."""
    reply = await two.search_all(("old", "new", "old"), "whales sing", limit=2)
    assert [hit.collection for hit in reply.hits] == ["old", "new"]
    assert reply.searched == ("old", "new")


async def test_failed_collections_are_named(two):
    """The others still give their hits."""
    reply = await two.search_all(("old", "none"), "whales", limit=5, where={"n": 1})
    assert [hit.collection for hit in reply.hits] == ["old"]
    assert (reply.searched, reply.failed) == (("old",), {"none": "not_found"})


async def test_only_collection_fails_with_its_own_failure(two):
    """And an invalid query fails whatever else succeeds."""
    with pytest.raises(Fault, match="not_found"):
        await two.search_all(("none",), "whales", limit=5)
    with pytest.raises(Fault, match="invalid_query"):
        await two.search_all(("old", "new"), " ", limit=5)


async def test_failure_of_all_is_one_failure(two):
    """It says what to correct; an empty list of hits would look like a success."""
    with pytest.raises(Fault, match="invalid_argument: Unknown field 'unknown'"):
        await two.search_all(("old", "new"), "whales", limit=5, where={"unknown": 1})


async def test_per_document_gives_each_document_once(library):
    """The best passage of each, best document first."""
    for name in ("a", "b", "d"):
        await library.store("c", document(name, f"Whales of sea {name} sing. " * 150))
    hits = await library.search("c", "whales", limit=3, per_document=True)
    assert len({hit.document_id for hit in hits}) == 3


async def test_long_document_leaves_places_for_others(library, monkeypatch):
    """All its passages are better; a question for which others were found is searched once."""
    searches = []
    ranked = Searcher._ranked

    async def counted(self, *args):
        searches.append(args)
        return await ranked(self, *args)

    monkeypatch.setattr(Searcher, "_ranked", counted)
    manual = "The pump of the whales sings. " * 7_000
    await library.store("c", document("manual", manual, title="Whales: the pump that sings"))
    for name in range(5):
        await library.store("c", document(f"note{name}", f"A note {name} on harbours. Whales?"))
    hits = await library.search("c", "pump of the whales", limit=10, per_document=True)
    assert len(hits) == len({hit.document_id for hit in hits}) == 6
    assert hits[0].document_id == document_id("c", "manual")
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(searches) == 2
    answer = await library.searcher.answer(
        "c", "pump of the whales", limit=10, per_document=True, explain=True
    )
    assert [hit.document_id for hit in answer.hits] == [hit.document_id for hit in hits]
    for hit in answer.hits:
        why = hit.explanation
        words = why.words.share if why.words else 0.0
        total = why.meaning.share + words + sum(why.boosts.values())
        assert total == pytest.approx(hit.score, abs=0.001)
    searches.clear()
    assert len(await library.search("c", "pump of the whales", limit=1, per_document=True)) == 1
    assert len(await library.search("c", "pump of the whales", limit=10)) == 10
    assert len(searches) == 2


@pytest.mark.parametrize("limit", [2, 3, 5])
async def test_passages_of_one_document_leave_places_at_any_limit(library, limit):
    """All that were read are looked at: behind thirty of a manual stand those of the notes."""
    pages = (f"Page {number}: the pump of the whales sings. " for number in range(30))
    await library.store("c", document("manual", "".join(page.ljust(1000, ".") for page in pages)))
    for name in range(8):
        await library.store("c", document(f"note{name}", f"A note {name} on harbours. Whales?"))
    query = "pump of the whales"
    answer = await library.searcher.answer("c", query, limit=limit, per_document=True, explain=True)
    assert answer.reading.ranked == 38
    assert len(answer.hits) == len({hit.document_id for hit in answer.hits}) == limit
    assert answer.hits[0].document_id == document_id("c", "manual")
    assert [hit.explanation.rank for hit in answer.hits[1:]] == list(range(31, 30 + limit))
    reasons = [entry.reason for entry in answer.left_out]
    assert reasons == ["same_document"] * MAX_LEFT_OUT + ["limit"] * (9 - limit)
    hits = await library.search("c", query, limit=limit, per_document=True)
    assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in answer.hits]


async def test_unknown_collection_is_not_found(library):
    """The message says how to make it."""
    with pytest.raises(Fault, match="searchbus ingest"):
        await library.search("nope", "x")


@pytest.mark.parametrize(
    ("query", "named"), [("", "empty"), (" \n", "empty"), ("x" * 1001, "1000")]
)
async def test_query_out_of_bounds_is_invalid_query(library, query, named):
    """Empty and over-long queries have their own code."""
    with pytest.raises(Fault, match=named) as caught:
        await library.search("c", query)
    assert caught.value.code == "invalid_query"


async def test_passage_with_the_words_of_the_query_stands_first(library):
    """A name among many passages that are nearer by meaning; of a question, its inner words."""
    for number in range(30):
        text = f"Who is Lena of Quince, and who is Quince of Ana? Year {number} of Ana and Lena."
        await library.store("c", document(f"d{number}", text))
    present = f"Present: {', '.join(f'Person {n}' for n in range(100))}, Ana\u2011Lena Quince."
    await library.store("c", document("list", present))
    for query in ("ana-lena quince", "Who is Ana-Lena Quince?"):
        first, second = await library.search("c", query, limit=2, per_document=True)
        assert (first.document_id, first.literal) == (document_id("c", "list"), True)
        assert not second.literal


@pytest.mark.parametrize(
    ("synonyms", "found"), [({"voting against": ("dissent",)}, ["v"]), ({}, [])]
)
async def test_synonyms_of_the_profile_are_searched_for(store, embedder, synonyms, found):
    """By words: the passage has none of the question."""
    profiles = {"c": Profile(synonyms=synonyms)}
    library = await Library.open(store, embedder, profiles=profiles)
    await library.store("c", document("v", "Voting against were two members.", title="v"))
    await library.store("c", document("w", "Whales sing of the sea.", title="w"))
    answer = await library.searcher.answer("c", "Why did they dissent?", limit=2, explain=True)
    assert [hit.title for hit in answer.hits if hit.explanation.words is not None] == found


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("target range decided at the meeting before the February 2023 meeting", "2022-03-16"),
        ("the next meeting after March 2022, target range", "2023-02-01"),
        ("the statement after the March 2022 meeting, target range", "2022-03-16"),
    ],
)
async def test_meeting_beside_a_date_is_the_collections_own(fomc_library, query, day):
    """Its documents say when there was one, however far away."""
    (first, *_) = await fomc_library.search("fomc", query, limit=2, per_document=True)
    assert first.metadata["date"] == day


@pytest.mark.parametrize(
    ("asked", "day"), [("first", "2020-01-01"), ("last", "2024-01-01")], ids=lambda one: one
)
@pytest.mark.parametrize("more", ["", " again and again"])
async def test_first_mention_is_found_behind_many_that_say_more(library, asked, day, more):
    """Of passages about it alone there are more than a search looks at; the question may have a
    word that it lacks."""
    days = [f"202{year}-{month:02}-{d:02}" for year in (1, 2, 3) for month in range(1, 13)
            for d in (2, 9, 16, 23)]  # fmt: skip
    for each in [*days, "2020-01-01", "2024-01-01"]:
        text = "Pears, pears and pears."
        if each not in days:
            text = "Of many things that were said of the harvest some were about pears."
        await library.store("fomc", document(each, text, collection="fomc", title="Report",
                                             metadata={"date": each, "type": "minutes"}))  # fmt: skip
    query = f"When were pears mentioned{more} for the {asked} time?"
    (first, *_) = await library.search("fomc", query, limit=2)
    assert first.metadata["date"] == day


async def test_no_meeting_within_a_year_changes_nothing(fomc_library):
    """The date itself is not the one that is asked for."""
    query = "the next meeting after February 2023"
    answer = await fomc_library.searcher.answer("fomc", query, limit=2, explain=True)
    assert answer.hits


async def test_collection_is_made_anew_beside_itself(library, embedder, store):
    """It is searched as it was until the copy takes its place; nobody sees the copy before."""
    await library.store("c", document("old", "Whales sing in the old sea."))
    assert await library.begin_rebuild("c") == 0
    await library.store("c~next", document("new", "Whales sing in the new sea."))
    assert await library.names() == ["c"]
    assert [info.documents for info in await library.list_collections()] == [1]
    assert [h.text for h in await library.search("c", "whales")] == ["Whales sing in the old sea."]
    assert (await library.search_all((), "whales", limit=5)).searched == ("c",)
    # An interrupted one is continued, also after a restart.
    again = await Library.open(store, embedder)
    assert await again.begin_rebuild("c") == 1
    assert await again.end_rebuild("c") == 1
    for reader in (library, again):
        found = await reader.search("c", "whales")
        assert [hit.text for hit in found] == ["Whales sing in the new sea."]
    assert await again.names() == ["c"]
    await again.store("c", document("more", "Seals bark."))
    assert await again.count_documents("c") == 2


async def test_copy_without_documents_replaces_nothing(library):
    """An empty source is no reason to lose a collection."""
    await library.store("c", document("old", "Whales sing."))
    await library.begin_rebuild("c")
    with pytest.raises(Fault, match="stays as it is"):
        await library.end_rebuild("c")
    assert await library.count_documents("c") == 1


async def test_copy_of_another_model_is_begun_anew(library, embedder, store):
    """What an interrupted rebuild made with the model of before is of no use."""
    await library.store("c~next", document("w", "Whales sing."))
    other = await load_embedder("hash")
    other.model = "other"
    again = await Library.open(store, other)
    assert await again.begin_rebuild("c") == 0


async def test_copy_with_another_type_of_a_declared_field_is_begun_anew(library):
    """An interrupted rebuild may have been without the declaration."""
    await library.store("c~next", document("w", "Whales sing.", metadata={"day": "soon"}))
    assert await library.begin_rebuild("c", {"day": "keyword"}) == 1
    assert await library.begin_rebuild("c", {"day": "datetime"}) == 0

"""One suite over both engines, and the order that fusion gives."""

from __future__ import annotations

import asyncio
import os
import random
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_testing.folders import quick_folder
from searchbus_vectors import (
    AllOf,
    AnyOf,
    CollectionMissingError,
    DateRange,
    Equals,
    IsIn,
    Not,
    NumberRange,
    Point,
    QueryVectors,
    Sparse,
    StoreOptions,
    Vectors,
    open_store,
)
from searchbus_vectors.store import SPARSE_WEIGHT, fuse, words_scale

from .conftest import FIELDS, direction, match, point, query, search, uid, vectors

ENGINES = ["embedded", "memory", *(["server"] if os.environ.get("QDRANT_URL") else [])]


@pytest.fixture(params=ENGINES)
async def store(request):
    with quick_folder() as folder:
        if request.param == "embedded":
            store = await open_store(folder=folder)
        else:
            store = await open_store(
                url=":memory:" if request.param == "memory" else os.environ["QDRANT_URL"],
                options=StoreOptions(
                    grpc_port=int(os.environ["QDRANT_GRPC_PORT"])
                    if "QDRANT_GRPC_PORT" in os.environ
                    else None,
                ),
            )
        yield store
        await store.close()


@pytest.fixture
async def name(store):
    name = f"c{secrets.token_hex(4)}"
    await store.ensure_collection(name, FIELDS)
    yield name
    await store.drop_collection(name)


async def numbers(store, name, where=None) -> list[int]:
    page = await store.scroll(name, where=where, limit=1000)
    return [record.payload["n"] for record in page.records]


async def test_search_fuses_meaning_and_words(store, name):
    """The point that both searches like comes first; each hit carries its true cosine."""
    await store.upsert(
        name,
        [
            Point(uid(1), {"n": 1}, vectors(1, 7)),
            Point(uid(2), {"n": 2}, vectors(1, 8)),
            Point(uid(3), {"n": 3}, vectors(3, 7)),
        ],
    )
    hits = await search(store, name, query(1, 7), limit=3)
    assert [hit.payload["n"] for hit in hits][0] == 1
    assert {hit.payload["n"]: round(hit.cosine, 4) for hit in hits} == {1: 1.0, 2: 1.0, 3: 0.0}
    assert hits[0].score == pytest.approx(1.0)


async def test_word_match_beyond_the_dense_candidates_has_a_cosine(store, name):
    """A point that only BM25 found is ranked with its real cosine."""
    await store.upsert(name, [Point(uid(i), {"n": i}, vectors(5, 1)) for i in range(1, 30)])
    await store.upsert(
        name, [Point(uid(99), {"n": 99}, Vectors(direction(5, 6), Sparse([77], [1.0])))]
    )
    matches = await match(store, name, query(5, 77), candidates=5)
    found = {match.id: match for match in matches}
    assert len(found) == 6
    assert found[uid(99)].cosine == pytest.approx(0.7071, abs=1e-3)
    assert sorted(match.words for match in matches) == [0, 0, 0, 0, 0, 1]


async def test_rare_word_has_a_higher_best_score_than_a_common_one(store, name):
    """A word of no point has none."""
    await store.upsert(name, [Point(uid(i), {"n": i}, vectors(i, 7)) for i in range(1, 9)])
    await store.upsert(name, [Point(uid(9), {"n": 9}, vectors(1, 8))])
    common, rare, absent = await store.best_by_word(name, Sparse([7, 8, 9], [1.0] * 3))
    assert rare > common > absent == 0
    assert await store.best_by_word(name, Sparse([], [])) == []


async def test_best_score_of_a_word_is_that_of_now(store, name):
    """Also where it was asked for before points were written or deleted."""
    asked = Sparse([7], [1.0])
    await store.upsert(name, [Point(uid(1), {"n": 1}, vectors(1, 8))])
    assert await store.best_by_word(name, asked) == [0]
    await store.upsert(name, [Point(uid(2), {"n": 2}, vectors(1, 7))])
    (there,) = await store.best_by_word(name, asked)
    assert there > 0
    await store.delete(name, Equals("n", 2))
    assert await store.best_by_word(name, asked) == [0]


async def test_collection_takes_the_place_of_another(store, name):
    """Again and again; searches find one of the two, and what was in its place is gone."""
    for number in (1, 2, 3):
        copy = f"{name}~next"
        await store.ensure_collection(copy, FIELDS)
        assert await store.count(copy) == 0
        await store.upsert(copy, [Point(uid(number), {"n": number}, vectors(1, 7))])
        before = [number - 1] if number > 1 else []
        assert await numbers(store, name) == before
        assert {name, copy} <= set(await store.collections())

        async def look(ended: asyncio.Event, found: set[int]) -> None:
            while not ended.is_set():
                hits = await search(store, name, query(1, 7), limit=5)
                found.update(hit.payload["n"] for hit in hits)
                assert len(hits) <= 1

        ended, found = asyncio.Event(), set()
        searches = [asyncio.create_task(look(ended, found)) for _ in range(3)]
        await asyncio.sleep(0)
        await store.rename_collection(copy, name)
        assert await numbers(store, name) == [number]
        ended.set()
        await asyncio.gather(*searches)
        assert found <= {number - 1, number}
        assert copy not in await store.collections()
        await store.upsert(name, [Point(uid(number), {"n": number, "kind": "x"}, vectors(2, 8))])
        assert await numbers(store, name, Equals("kind", "x")) == [number]
    with pytest.raises(CollectionMissingError):
        await store.rename_collection(f"{name}~next", name)


async def test_points_are_copied_with_their_vectors(store, name):
    """A page at a time; a point without vectors has none."""
    wanted = [Point(uid(i), {"n": i}, vectors(i, 7, 8)) for i in range(1, 6)]
    wanted.append(Point(uid(6), {"n": 6}))
    await store.upsert(name, wanted)
    found, start_id = [], None
    while True:
        page = await store.scroll_points(name, limit=4, start_id=start_id)
        found += page.points
        if (start_id := page.next_id) is None:
            break
    assert found == wanted
    only = await store.scroll_points(name, where=Equals("n", 3))
    assert only.points == [wanted[2]]


async def test_points_with_a_word_are_counted_up_to_a_limit(store, name):
    """However often each has it."""
    await store.upsert(name, [Point(uid(i), {"n": i}, vectors(i, 7)) for i in range(1, 9)])
    await store.upsert(name, [Point(uid(9), {"n": 9}, vectors(1, 8))])
    assert await store.count_by_word(name, [7, 8, 9], most=5) == [5, 1, 0]
    assert await store.count_by_word(name, [7], most=50) == [8]
    assert await store.count_by_word(name, [], most=5) == []


async def test_query_without_terms_is_searched_by_meaning(store, name):
    """A query of stopwords alone still gets answers."""
    await store.upsert(name, [point(i) for i in range(1, 4)])
    hits = await search(store, name, query(2), limit=1)
    assert [hit.payload["n"] for hit in hits] == [2]


async def test_equal_scores_are_ordered_by_id(store, name):
    """Ties are deterministic."""
    ids = list(range(1, 20))
    random.Random(3).shuffle(ids)
    await store.upsert(name, [Point(uid(i), {"n": i}, vectors(1, 7)) for i in ids])
    hits = await search(store, name, query(1, 7), limit=19)
    assert [hit.payload["n"] for hit in hits] == sorted(ids)


async def test_filter_applies_to_both_searches(store, name):
    """No hit lies outside of the filter."""
    await store.upsert(
        name, [Point(uid(i), {"n": i, "year": 2000 + i % 3}, vectors(1, 7)) for i in range(1, 31)]
    )
    hits = await search(store, name, query(1, 7), limit=30, where=Equals("year", 2001))
    assert sorted(hit.payload["n"] for hit in hits) == [i for i in range(1, 31) if i % 3 == 1]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Equals("kind", "a"), [1, 3]),
        (Equals("live", True), [1, 2]),
        (IsIn("kind", ("a", "b")), [1, 2, 3]),
        (IsIn("year", (2001, 2003)), [1, 3]),
        (NumberRange("year", gt=2001, lte=2003), [2, 3]),
        (NumberRange("weight", gte=0.5, lte=0.5), [1]),
        (NumberRange("weight", gt=0.6), [2, 3]),
        (NumberRange("weight", gte=1, lte=1), [3]),
        (DateRange("day", gte="2024-01-31", lt="2024-03-01"), [1, 2]),
        (DateRange("day", gt="2024-01-31"), [2, 3]),
        (DateRange("day", gte="2024-01-31", lte="2024-01-31"), [1]),
        (Not(Equals("kind", "a")), [2, 4]),
        (AllOf((Equals("kind", "a"), NumberRange("year", lt=2002))), [1]),
        (AnyOf((Equals("kind", "b"), Equals("year", 2003))), [2, 3]),
        (
            AllOf((AnyOf((Equals("kind", "a"), Equals("kind", "b"))), Not(Equals("live", True)))),
            [3],
        ),
        (AllOf(()), [1, 2, 3, 4]),
    ],
    ids=repr,
)
async def test_filters_mean_the_same_in_every_engine(store, name, where, expected):
    """Each condition selects the same points."""
    await store.upsert(
        name,
        [
            point(1, kind="a", year=2001, weight=0.5, day="2024-01-31", live=True),
            point(2, kind="b", year=2002, weight=0.7, day="2024-02-29", live=True),
            point(3, kind="a", year=2003, weight=1, day="2024-03-01", live=False),
            point(4),
        ],
    )
    assert await numbers(store, name, where) == expected
    assert await store.count(name, where) == len(expected)


async def test_upsert_replaces_and_delete_removes(store, name):
    """Equal ids replace; a filter deletes."""
    await store.upsert(name, [point(1, kind="a"), point(2, kind="b")])
    await store.upsert(name, [point(1, kind="c")])
    assert await store.count(name) == 2
    assert [r.payload["kind"] for r in await store.get(name, [uid(2), uid(1), uid(9)])] == [
        "b",
        "c",
    ]
    await store.delete(name, Equals("kind", "b"))
    assert await numbers(store, name) == [1]


async def test_set_payload_merges(store, name):
    """Keys are added or changed, others stay."""
    await store.upsert(name, [point(1, kind="a"), point(2, kind="a"), point(3, kind="b")])
    await store.set_payload(name, Equals("kind", "a"), {"live": True})
    assert await numbers(store, name, Equals("live", True)) == [1, 2]
    assert (await store.get(name, [uid(1)]))[0].payload["kind"] == "a"


async def test_points_without_vectors_are_stored_and_never_found_by_search(store, name):
    """A record of bookkeeping is there for filters and ids alone."""
    await store.upsert(name, [Point(uid(1), {"n": 1, "text": "x" * 200_000}), point(2)])
    assert len((await store.get(name, [uid(1)]))[0].payload["text"]) == 200_000
    hits = await search(store, name, query(2, 1002), limit=10)
    assert [hit.payload["n"] for hit in hits] == [2]


async def test_scroll_pages_in_order_without_gaps(store, name):
    """Walking the pages gives each point once, in order of id."""
    await store.upsert(name, [point(i) for i in range(1, 26)])
    seen, start = [], None
    while True:
        page = await store.scroll(name, limit=7, start_id=start)
        seen += [record.payload["n"] for record in page.records]
        start = page.next_id
        if start is None:
            break
    assert seen == list(range(1, 26))


async def test_vectors_of_a_collection_may_have_another_length(store):
    """As its model makes them; collections of both lengths stand side by side."""
    name = f"c{secrets.token_hex(4)}"
    await store.ensure_collection(name, FIELDS, dimensions=8)
    words = Sparse([7], [1.0])
    rows = [[float(i == n) for i in range(8)] for n in range(3)]
    points = [Point(uid(n), {"n": n}, Vectors(row, words)) for n, row in enumerate(rows)]
    await store.upsert(name, points)
    (best, *_) = await search(store, name, QueryVectors(rows[2], Sparse([], [])), limit=3)
    assert (best.payload["n"], best.cosine) == (2, pytest.approx(1.0))
    await store.drop_collection(name)


async def test_explained_matches_have_both_ranks(store, name):
    """One found by both searches, and its share by words; without `explain` there is none."""
    await store.upsert(name, [point(i) for i in range(1, 6)])
    matches = await match(store, name, query(3, 1003), explain=True)
    best = matches[0]
    assert best.id == uid(3)
    assert (best.legs.meaning_rank, best.legs.words_rank) == (1, 1)
    assert best.legs.bm25 > 0
    assert best.legs.words_share == pytest.approx(SPARSE_WEIGHT)
    others = [match.legs for match in matches[1:]]
    assert all((legs.words_rank, legs.words_share) == (None, 0.0) for legs in others)
    plain = await match(store, name, query(3, 1003))
    assert [(m.id, m.score, m.legs) for m in plain] == [(m.id, m.score, None) for m in matches]


async def test_missing_collection_is_a_typed_error(store):
    """Every access to an unknown collection raises CollectionMissingError."""
    for call in (
        store.count("nope"),
        search(store, "nope", query(1, 1), limit=1),
        store.get("nope", [uid(1)]),
        store.scroll("nope"),
        store.upsert("nope", [point(1)]),
    ):
        with pytest.raises(CollectionMissingError):
            await call


async def test_collections_are_listed_and_dropped(store, name):
    """A dropped collection is gone, and may be made again empty."""
    await store.upsert(name, [point(1)])
    assert name in await store.collections()
    await store.drop_collection(name)
    assert name not in await store.collections()
    await store.ensure_collection(name, FIELDS)
    assert await store.count(name) == 0


async def test_reads_go_on_while_writes_run(store, name):
    """Concurrent searches and upserts do not disturb each other."""
    await store.upsert(name, [point(i) for i in range(1, 51)])

    async def write():
        for start in range(100, 300, 20):
            await store.upsert(name, [point(i) for i in range(start, start + 20)])

    async def read():
        for _ in range(20):
            assert (await search(store, name, query(7, 1007), limit=1))[0].payload["n"] == 7

    await asyncio.gather(write(), read(), read())
    assert await store.count(name) == 250


scores = st.dictionaries(st.text(min_size=1, max_size=4), st.floats(-1, 1), max_size=20)


@given(scores, st.data())
def test_fusion_is_deterministic_and_bounded(cosine, data):
    """Scores lie in 0..1 and never rise along the list, whatever the inputs."""
    subset = data.draw(st.lists(st.sampled_from(sorted(cosine)), unique=True)) if cosine else []
    sparse = {key: data.draw(st.floats(0, 50)) for key in subset}
    ranked = fuse(cosine, sparse)
    assert {key for key, _ in ranked} == set(cosine)
    values = [score for _, score in ranked]
    assert values == sorted(values, reverse=True)
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in values)
    assert ranked == fuse(dict(reversed(cosine.items())), dict(reversed(sparse.items())))


def test_a_candidate_that_is_best_in_both_scores_one():
    """And the weights are .55 for the cosine, .45 for BM25."""
    ranked = fuse({"a": 0.9, "b": 0.5, "c": 0.1}, {"a": 12.0, "c": 3.0})
    assert ranked == [
        ("a", pytest.approx(1.0)),
        ("b", pytest.approx(0.275)),
        ("c", pytest.approx(0.1125)),
    ]


def test_a_word_that_is_found_always_counts():
    """The last candidate of BM25 has words of the query; one that it did not find has none."""
    ranked = dict(fuse({"a": 0.9, "b": 0.5, "c": 0.5}, {"a": 4.0, "b": 3.9}))
    assert ranked["b"] > ranked["c"]
    assert dict(fuse({"a": 0.9, "b": 0.5}, {"b": 0.0})) == {"a": pytest.approx(0.55), "b": 0.0}


def test_words_count_less_where_no_passage_has_most_of_them():
    """The best passage has 4 of 20; from 13 on, it is the measure."""
    cosine, sparse = {"a": 0.9, "b": 0.1}, {"b": 4.0}
    scores = dict(fuse(cosine, sparse, full=20.0))
    assert scores == {"a": pytest.approx(0.55), "b": pytest.approx(0.45 * 4 / 13)}
    assert fuse(cosine, {"b": 13.0}, full=20.0) == fuse(cosine, {"b": 13.0})
    assert words_scale({}, 0.0) == 1.0


def test_no_candidates_give_an_empty_list():
    """An empty collection has nothing to rank."""
    assert fuse({}, {}) == []

"""The index of the nearest vectors: what it finds, keeps and forgets; several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from searchbus_vectors.nearest import NearestIndex

from .conftest import uid


def rows(count: int) -> list[list[float]]:
    """Vectors around 50 centres, as texts of 50 subjects would have."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((50, 384))
    return (centres[np.arange(count) % 50] + rng.standard_normal((count, 384)) * 0.3).tolist()


def test_vectors_may_have_another_length(tmp_path):
    """The files keep it."""
    index = NearestIndex(4)
    index.add(["a", "b"], [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    index.save(tmp_path)
    loaded = NearestIndex.load(tmp_path, 4)
    assert loaded is not None
    assert loaded.search([0.0, 1.0, 0.0, 0.1], 1) == ["b"]


def index_of(vectors: list[list[float]]) -> NearestIndex:
    index = NearestIndex()
    index.add([uid(i) for i in range(len(vectors))], vectors)
    return index


def test_finds_nearly_all_of_the_nearest():
    """At least nine of the ten nearest, over many queries."""
    vectors = rows(2000)
    index = index_of(vectors)
    matrix = np.asarray(vectors)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    hits = 0
    for number in range(0, 2000, 40):
        exact = {uid(int(i)) for i in np.argsort(-(matrix @ matrix[number]))[:10]}
        hits += len(exact & set(index.search(vectors[number], 10)))
    assert hits >= 9 * 50


def test_empty_index_finds_nothing():
    """Neither a new index nor one whose last id was removed raises."""
    index = index_of(rows(1))
    index.remove([uid(0), uid(7)])
    assert index.search(rows(1)[0], 5) == []
    assert len(index) == 0


def test_saved_index_is_loaded_once(tmp_path):
    """Removed ids stay removed; the files are gone after loading."""
    vectors = rows(100)
    index = index_of(vectors)
    index.remove([uid(3)])
    index.save(tmp_path)
    loaded = NearestIndex.load(tmp_path)
    assert loaded is not None
    assert len(loaded) == 99
    assert uid(3) not in loaded
    assert loaded.search(vectors[4], 5) == index.search(vectors[4], 5)
    loaded.add([uid(3)], [vectors[3]])
    assert loaded.search(vectors[3], 1) == [uid(3)]
    assert NearestIndex.load(tmp_path) is None


def test_graph_that_is_not_of_its_ids_does_not_count(tmp_path, caplog):
    """The log says why the index is built again."""
    index_of(rows(10)).save(tmp_path)
    with (tmp_path / "nearest.ids").open("a") as ids:
        ids.write(f"\n{uid(10)}")
    assert NearestIndex.load(tmp_path) is None
    assert "10 vectors for 11 ids" in caplog.text


def test_removed_rows_take_no_place_of_others():
    """Where the nearest are all removed, the next ones are found, as many as are wanted."""
    vectors = rows(1000)
    index = index_of(vectors)
    order = index.search(vectors[7], 200)
    index.remove(order[:100])
    assert index.search(vectors[7], 100) == order[100:]


def test_index_is_worn_where_much_is_gone():
    """A third of all, or most of what is around many passages that were replaced often."""
    index = index_of(rows(1000))
    index.remove([uid(number) for number in range(300)])
    assert not index.worn
    index.remove([uid(number) for number in range(300, 400)])
    assert index.worn
    index = index_of(rows(1000))
    several = [number for number in range(1000) if number % 50 < 4]
    replaced = 0
    while not index.worn:
        index.add([uid(number) for number in several], [rows(1000)[n] for n in several])
        replaced += 1
    assert replaced == 3


def test_one_passage_that_changes_wears_no_index(tmp_path):
    """It and those near it are found each time, also after a restart."""
    vectors = rows(1000)
    index = index_of(vectors)
    near = set(index.search(vectors[3], 15))
    for _ in range(400):
        index.add([uid(3)], [vectors[3]])
        assert near <= set(index.search(vectors[3], 15))
        assert not index.worn
    index.save(tmp_path)
    loaded = NearestIndex.load(tmp_path)
    assert loaded is not None
    assert set(loaded.search(vectors[3], 15)) == set(index.search(vectors[3], 15)) >= near
    loaded.remove([uid(3)])
    assert uid(3) not in loaded.search(vectors[3], 15)


def test_graph_without_its_ids_does_not_count(tmp_path):
    """A crash between the two files leaves no index."""
    index_of(rows(10)).save(tmp_path)
    (tmp_path / "nearest.ids").unlink()
    assert NearestIndex.load(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_searches_while_it_grows():
    """Threads search while others add; every answer is an id that was added."""
    vectors = rows(3000)
    index = index_of(vectors[:100])
    known = {uid(i) for i in range(3000)}
    with ThreadPoolExecutor(4) as pool:
        adding = pool.submit(index.add, [uid(i) for i in range(100, 3000)], vectors[100:])
        answers = list(pool.map(lambda v: index.search(v, 10), vectors[:600]))
        adding.result()
    assert all(len(answer) == 10 and known.issuperset(answer) for answer in answers)
    assert len(index) == 3000

"""The cache of vectors on disk."""

from __future__ import annotations

import numpy as np

from searchbus_toolindex import vector_file
from searchbus_toolindex.vector_file import VectorFile, text_key
from searchbus_vectors.hash_embedder import hashed_vector


def test_vector_file_survives_a_torn_end_and_foreign_bytes(tmp_path):
    """What is whole is read; the rest is left out."""
    path = tmp_path / "toolindex" / "vectors.bin"
    vectors = {text_key("m", str(i)): hashed_vector(f"word{i}") for i in range(5)}
    VectorFile(path).add(vectors)
    with path.open("ab") as file:
        file.write(b"\x01" * 1700)
    again = VectorFile(path)
    assert len(again) == 5
    for key, vector in vectors.items():
        np.testing.assert_array_equal(again.get(key), vector)
    again.add({text_key("m", "6"): hashed_vector("six")})
    assert len(VectorFile(path)) == 6


def test_key_depends_on_model_and_text():
    """Vectors of two embedders cannot be mixed up."""
    assert len({text_key(m, t) for m in ("a", "b") for t in ("x", "y")}) == 4


def test_large_file_keeps_only_what_is_indexed(tmp_path, monkeypatch):
    """A small one is left as it is."""
    vectors = {text_key("m", str(i)): hashed_vector(str(i)) for i in range(5)}
    path = tmp_path / "vectors.bin"
    file = VectorFile(path)
    file.add(vectors)
    wanted = list(vectors)[:2]
    file.keep_only(wanted)
    assert len(VectorFile(path)) == 5
    monkeypatch.setattr(vector_file, "MOST_RECORDS", 4)
    file.keep_only(wanted)
    again = VectorFile(path)
    assert len(again) == 2
    assert all(again.get(key) is not None for key in wanted)


def test_full_disk_costs_nothing_but_the_next_start(tmp_path, caplog):
    """The vectors are still in memory, and the log says what happened."""
    (tmp_path / "file").write_text("")
    file = VectorFile(tmp_path / "file" / "vectors.bin")
    file.add({b"k" * 16: hashed_vector("x")})
    assert file.get(b"k" * 16) is not None
    assert "could not be written" in caplog.text


def test_file_that_cannot_be_read_costs_nothing_but_the_next_start(tmp_path, caplog):
    """A file of another user: vectors are kept in memory."""
    path = tmp_path / "vectors.bin"
    path.mkdir()  # root may open any file, but not a folder
    file = VectorFile(path)
    key = text_key("m", "a")
    file.add({key: hashed_vector("a")})
    assert "could not be read" in caplog.text
    np.testing.assert_array_equal(file.get(key), hashed_vector("a"))


def test_vectors_that_another_process_removed_are_missing(tmp_path):
    """Rather than another text's; what is added afterwards is found."""
    path = tmp_path / "vectors.bin"
    vectors = {text_key("m", str(i)): hashed_vector(f"word{i}") for i in range(3)}
    one = VectorFile(path)
    one.add(vectors)
    path.unlink()
    VectorFile(path).add({text_key("m", "2"): hashed_vector("word2")})
    assert one.get(text_key("m", "0")) is None
    one.add({text_key("m", "0"): hashed_vector("word0")})
    np.testing.assert_array_equal(one.get(text_key("m", "0")), hashed_vector("word0"))

"""How a server keeps a collection, by its expected size and by what is set."""

from __future__ import annotations

import pytest

from searchbus_vectors import Layout, StoreOptions


def test_defaults_follow_from_the_expected_size():
    """A small collection is in memory as it is; a large one is quantized and in shards."""
    small, large = Layout(), Layout(expected_passages=5_000_000)
    assert (small.quantized, small.originals_on_disk, small.shard_count) == ("none", False, 1)
    assert (large.quantized, large.originals_on_disk, large.shard_count) == ("scalar", True, 5)
    chosen = Layout(expected_passages=5_000_000, quantization="binary", on_disk=False, shards=3)
    assert (chosen.quantized, chosen.originals_on_disk, chosen.shard_count) == ("binary", False, 3)


@pytest.mark.parametrize(("replicas", "copies"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_half_of_the_replicas_must_have_a_write(replicas, copies):
    """Rounded up, so that writes go on while one of two or three nodes is away."""
    assert Layout(replicas=replicas).copies_written == copies


@pytest.mark.parametrize(
    "wrong", [{"shards": 0}, {"hnsw_m": 1_000}, {"replicas": 2, "write_consistency": 3}]
)
def test_numbers_out_of_range_are_refused(wrong):
    """The message names the field."""
    with pytest.raises(ValueError, match=list(wrong)[-1]):
        Layout(**wrong)


def test_layout_is_that_of_the_collection_or_of_all_others():
    """By its name."""
    wiki, others = Layout(shards=2), Layout(shards=3)
    options = StoreOptions(layouts={"wiki": wiki, "*": others})
    assert (options.layout("wiki"), options.layout("docs")) == (wiki, others)
    assert StoreOptions().layout("docs") == Layout()

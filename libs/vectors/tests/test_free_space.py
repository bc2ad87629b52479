"""Writes are refused while the disk is nearly full; what was begun may still end."""

from __future__ import annotations

import pytest

from searchbus_vectors import StorageFull
from searchbus_vectors.free_space import FreeSpace, free_bytes_of

MIB = 2**20


@pytest.mark.parametrize(
    ("free_mib", "may_begin", "may_end"),
    [(64, True, True), (63, False, True), (16, False, True), (15, False, False)],
)
def test_a_quarter_is_kept_for_what_was_begun(tmp_path, free_mib, may_begin, may_end):
    """The refusal says how much is free, and how much is needed."""
    space = FreeSpace(tmp_path, 64 * MIB, lambda folder: free_mib * MIB)
    for check, allowed in ((space.check, may_begin), (space.check_for_end, may_end)):
        if allowed:
            check()
            continue
        with pytest.raises(StorageFull, match=f"{free_mib} MiB are free .* 64 MiB are needed"):
            check()


def test_free_space_is_that_of_the_disk(tmp_path):
    """Of a folder that exists."""
    assert free_bytes_of(tmp_path) > 0

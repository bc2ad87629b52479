"""The space that a start on a full disk needs."""

from __future__ import annotations

import os

import pytest

from searchbus_runtime.files import RESERVE_BYTES, space_for_start

PLENTY = 2**40


def test_reserve_is_kept_while_there_is_space(tmp_path):
    """Its blocks are allocated: a file with holes would reserve nothing."""
    path = tmp_path / ".reserve-nats"
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: RESERVE_BYTES):
        assert not path.exists()
    assert not path.exists()
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        assert path.stat().st_blocks * 512 >= RESERVE_BYTES
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: RESERVE_BYTES):
        assert path.exists()


def test_each_start_on_a_full_disk_leaves_the_rest_of_the_reserve_to_the_next(tmp_path):
    """A start needs a part of it only; what it did not need would be filled by logs and traces."""
    path = tmp_path / ".reserve-nats"
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        pass
    for left in (RESERVE_BYTES - 100_000, RESERVE_BYTES - 200_000):
        free = iter((0, left))
        with space_for_start(tmp_path, "nats", free_bytes=lambda folder, free=free: next(free)):
            assert not path.exists()
        assert path.stat().st_size == left
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        assert path.stat().st_size == RESERVE_BYTES


def test_start_that_fails_on_a_full_disk_keeps_the_rest_as_well(tmp_path):
    """The next attempt needs it."""
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        pass
    free = iter((0, RESERVE_BYTES))
    with (
        pytest.raises(RuntimeError, match="NATS"),
        space_for_start(tmp_path, "nats", free_bytes=lambda folder: next(free)),
    ):
        raise RuntimeError("NATS did not start")
    assert (tmp_path / ".reserve-nats").exists()


def test_start_that_used_all_of_the_reserve_says_so(tmp_path, caplog):
    """And leaves no empty file."""
    (tmp_path / ".reserve-nats").write_bytes(b"x")
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: 0):
        pass
    assert "nothing is left for another start" in caplog.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_reserve_that_cannot_be_made_does_not_stop_the_start(tmp_path, monkeypatch, caplog):
    """Nothing of it stays."""

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with space_for_start(tmp_path, "nats", free_bytes=lambda folder: PLENTY):
        pass
    assert "No space left" in caplog.text
    assert list(tmp_path.iterdir()) == []

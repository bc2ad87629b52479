"""Space that is kept for a start on a full disk."""

from __future__ import annotations

import os

import pytest

from searchbus_runtime.reserve import RESERVE_BYTES, keep_reserve

PLENTY = 2**40


def test_reserve_is_kept_while_there_is_space_and_released_when_there_is_none(tmp_path):
    """Its blocks are allocated: a file with holes would reserve nothing."""
    path = tmp_path / ".reserve"
    keep_reserve(tmp_path, free_bytes=lambda folder: RESERVE_BYTES)
    assert not path.exists()
    keep_reserve(tmp_path, free_bytes=lambda folder: PLENTY)
    assert path.stat().st_blocks * 512 >= RESERVE_BYTES
    keep_reserve(tmp_path, free_bytes=lambda folder: RESERVE_BYTES)
    assert path.exists()
    keep_reserve(tmp_path, free_bytes=lambda folder: 0)
    keep_reserve(tmp_path, free_bytes=lambda folder: 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_reserve_that_cannot_be_made_does_not_stop_the_start(tmp_path, monkeypatch, caplog):
    """Nothing of it stays."""

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    keep_reserve(tmp_path, free_bytes=lambda folder: PLENTY)
    assert "No space left" in caplog.text
    assert list(tmp_path.iterdir()) == []

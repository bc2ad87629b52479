"""The number of points that a collection has at least."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from searchbus_vectors.point_count import PointCount


def test_number_follows_and_is_there_after_a_restart(tmp_path):
    """It never rises before a write nor falls behind a deletion."""
    count = PointCount(tmp_path)
    assert count.least == 0
    count.raise_to(60)
    count.raise_to(40)
    assert PointCount(tmp_path).least == 60
    count.lower_to(58)
    count.lower_to(70)
    assert PointCount(tmp_path).least == 58


def test_lower_number_is_on_disk_before_anything_is_deleted(tmp_path, monkeypatch):
    """Where it cannot be written, the caller must not delete."""
    count = PointCount(tmp_path)
    count.raise_to(60)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        count.lower_to(58)
    assert PointCount(tmp_path).least == 60


def test_number_that_cannot_be_raised_stays_true(tmp_path, monkeypatch, caplog):
    """The document is stored; the log says what is missing."""
    count = PointCount(tmp_path)

    def full(self: Path, mode: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    count.raise_to(60)
    assert "No space left" in caplog.text
    assert PointCount(tmp_path).least == 0


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"points": "many"}'])
def test_damaged_number_is_none(tmp_path, content):
    """It is written anew with the next points."""
    (tmp_path / "points.json").write_text(content)
    count = PointCount(tmp_path)
    assert count.least == 0
    count.raise_to(3)
    assert json.loads((tmp_path / "points.json").read_text()) == {"points": 3}

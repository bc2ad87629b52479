"""Temporary folders in memory."""

from __future__ import annotations

from searchbus_testing.folders import quick_folder


def test_folder_is_removed_with_its_content():
    """Also one that is not empty."""
    with quick_folder() as folder:
        (folder / "a").mkdir()
        (folder / "a" / "b").write_text("x")
    assert not folder.exists()

"""The check that the edge adds to `searchbus doctor`."""

from __future__ import annotations

import pytest

from searchbus_edge.checks import files


@pytest.mark.parametrize("name", ["edge.key", "keys.json", "pins.json"])
def test_doctor_names_a_file_that_was_emptied(tmp_path, name):
    """The edge goes on with what it knows; the person who looks must see why."""
    assert files(tmp_path)[1]
    (tmp_path / name).write_text("")
    check, ok, message = files(tmp_path)
    assert (check, ok) == ("files of the edge", False)
    assert str(tmp_path / name) in message

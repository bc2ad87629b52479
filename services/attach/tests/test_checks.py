"""The check that the service adds to `searchbus doctor`."""

from __future__ import annotations

import pytest

from searchbus_attach.checks import files


@pytest.mark.parametrize("name", ["attach.toml", "attach-pins.json"])
def test_doctor_names_a_damaged_file(tmp_path, name):
    """An absent one is in order."""
    assert files(tmp_path)[1]
    (tmp_path / name).write_text("[servers")
    check, ok, message = files(tmp_path)
    assert (check, ok) == ("attached servers", False)
    assert str(tmp_path / name) in message

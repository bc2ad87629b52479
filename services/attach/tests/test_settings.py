"""Where the files are."""

from __future__ import annotations

from searchbus_attach.settings import AttachSettings


def test_the_files_are_in_the_data_folder(tmp_path):
    """Unless they are named."""
    settings = AttachSettings(data_dir=tmp_path)
    assert settings.file == tmp_path / "attach.toml"
    assert settings.pins == tmp_path / "attach-pins.json"
    named = AttachSettings(attach_file=tmp_path / "a.json", attach_pins_file=tmp_path / "p.json")
    assert (named.file, named.pins) == (tmp_path / "a.json", tmp_path / "p.json")

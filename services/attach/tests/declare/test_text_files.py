"""Encodings of files."""

from __future__ import annotations

import pytest

from searchbus_attach.declare.text_files import read_text
from searchbus_attach.faults import DeclarationFault


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_usual_encodings_are_read(tmp_path, encoding):
    """UTF-16 is what PowerShell writes."""
    path = tmp_path / "mcp.json"
    path.write_text('{"\u00e9": 1}', encoding=encoding)
    assert read_text(path) == '{"\u00e9": 1}'


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff\xfea"])
def test_other_files_are_named(tmp_path, content):
    """With what to do."""
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(
        DeclarationFault, match=r"mcp\.json is not text in UTF-8: .* save it as UTF-8"
    ):
        read_text(path)

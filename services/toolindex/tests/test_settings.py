"""Settings of the tool index."""

from __future__ import annotations

from searchbus_toolindex.settings import ToolindexSettings


def test_vectors_lie_in_the_data_folder(tmp_path, monkeypatch):
    """And the embedder is the model unless set."""
    assert ToolindexSettings(data_dir=tmp_path).vector_file == tmp_path / "toolindex/vectors.bin"
    assert ToolindexSettings().embedder == "model"
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert ToolindexSettings().embedder == "hash"

"""Settings of the tool index."""

from __future__ import annotations

from searchbus_toolindex.settings import ToolindexSettings


def test_vectors_lie_in_the_data_folder(tmp_path, monkeypatch):
    """Those of one length in a file; the embedder is two models unless set."""
    path = ToolindexSettings(data_dir=tmp_path).vector_file(768)
    assert path == tmp_path / "toolindex/vectors-768.bin"
    assert (ToolindexSettings().embedder, ToolindexSettings().second_model) == ("model", True)
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert ToolindexSettings().embedder == "hash"

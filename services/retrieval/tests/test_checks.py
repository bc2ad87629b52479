"""The check that the service adds to `searchbus doctor`."""

from __future__ import annotations

from searchbus_retrieval.checks import model


def test_doctor_says_where_the_model_is_missing(monkeypatch, tmp_path):
    """And that the other embedder needs none."""
    monkeypatch.setenv("SEARCHBUS_MODEL_DIR", str(tmp_path))
    name, ok, message = model(tmp_path)
    assert (name, ok) == ("embedding model", False)
    assert "SEARCHBUS_MODEL_DIR" in message
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert model(tmp_path)[1]

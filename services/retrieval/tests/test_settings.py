"""Settings of the service, and its check in `searchbus doctor`."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from searchbus_retrieval.checks import model
from searchbus_retrieval.settings import RetrievalSettings


def test_embedder_is_the_model_unless_set(monkeypatch):
    """Only two names are valid."""
    assert RetrievalSettings().embedder == "model"
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert RetrievalSettings().embedder == "hash"
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "none")
    with pytest.raises(ValidationError, match="'model' or 'hash'"):
        RetrievalSettings()


def test_documents_lie_in_the_data_folder(tmp_path):
    """Below `qdrant`."""
    assert RetrievalSettings(data_dir=tmp_path).store_folder == tmp_path / "qdrant"


def test_doctor_says_where_the_model_is_missing(monkeypatch, tmp_path):
    """And that the other embedder needs none."""
    monkeypatch.setenv("SEARCHBUS_MODEL_DIR", str(tmp_path))
    name, ok, message = model()
    assert (name, ok) == ("embedding model", False)
    assert "SEARCHBUS_MODEL_DIR" in message
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert model()[1]

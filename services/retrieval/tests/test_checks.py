"""The checks that the service adds to `searchbus doctor`."""

from __future__ import annotations

import pytest

from searchbus_retrieval.checks import model, store
from searchbus_testing import free_port


def test_doctor_says_where_the_model_is_missing(monkeypatch, tmp_path):
    """And that the other embedder needs none."""
    monkeypatch.setenv("SEARCHBUS_MODEL_DIR", str(tmp_path))
    name, ok, message = model(tmp_path)
    assert (name, ok) == ("embedding model", False)
    assert "SEARCHBUS_MODEL_DIR" in message
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert model(tmp_path)[1]


@pytest.mark.filterwarnings("ignore:Failed to obtain server version")
def test_doctor_says_that_the_server_of_the_documents_is_away(monkeypatch, tmp_path):
    """And where the embedded engine keeps them."""
    assert store(tmp_path) == ("document store", True, f"in {tmp_path / 'qdrant'}")
    port = free_port()
    monkeypatch.setenv("SEARCHBUS_QDRANT_URL", f"http://127.0.0.1:{port}")
    name, ok, message = store(tmp_path)
    assert (name, ok) == ("document store", False)
    assert f"Qdrant at 127.0.0.1:{port} does not respond" in message

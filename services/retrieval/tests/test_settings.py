"""Settings of the service."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from searchbus_bus.client.request import Deadline, received_deadline
from searchbus_retrieval.settings import RetrievalSettings
from searchbus_vectors import Layout


def test_embedder_is_the_model_unless_set(monkeypatch):
    """Only two names are valid."""
    assert RetrievalSettings().embedder == "model"
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    assert RetrievalSettings().embedder == "hash"
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "none")
    with pytest.raises(ValidationError, match="'model' or 'hash'"):
        RetrievalSettings()


def test_models_of_collections_are_checked_at_the_start():
    """An unknown name is refused with what names there are."""
    chosen = {"wiki": "intfloat/multilingual-e5-small", "*": "BAAI/bge-small-en-v1.5"}
    assert RetrievalSettings(collection_models=chosen).collection_models == chosen
    with pytest.raises(ValidationError, match="no embedding model 'nobody/nothing'"):
        RetrievalSettings(collection_models={"wiki": "nobody/nothing"})


def test_documents_lie_in_the_data_folder(tmp_path):
    """Below `qdrant`."""
    assert RetrievalSettings(data_dir=tmp_path).store_folder == tmp_path / "qdrant"


def test_profile_that_cannot_be_used_is_refused_at_the_start(tmp_path):
    """It names the file, or the folder that is missing."""
    with pytest.raises(ValidationError, match="No such file or directory"):
        RetrievalSettings(profile_dir=tmp_path / "none")
    (tmp_path / "hr.toml").write_text("[bogus")
    with pytest.raises(ValidationError, match=r"hr\.toml cannot be read"):
        RetrievalSettings(profile_dir=tmp_path)


def test_layouts_of_collections_are_checked_at_the_start(monkeypatch):
    """They are JSON in the environment."""
    monkeypatch.setenv("SEARCHBUS_COLLECTION_LAYOUTS", '{"wiki": {"shards": 3, "replicas": 3}}')
    options = RetrievalSettings().server["options"]
    assert options.layout("wiki") == Layout(shards=3, replicas=3)
    monkeypatch.setenv("SEARCHBUS_COLLECTION_LAYOUTS", '{"wiki": {"shards": 0}}')
    with pytest.raises(ValidationError, match="shards must be 1 to 1024"):
        RetrievalSettings()
    monkeypatch.setenv("SEARCHBUS_COLLECTION_LAYOUTS", '{"wiki": {"shard": 1}}')
    with pytest.raises(ValidationError, match="shard"):
        RetrievalSettings()


def test_reads_have_the_time_of_the_request_at_hand():
    """Outside of one there is none."""
    remaining_s = RetrievalSettings().server["options"].remaining_s
    assert remaining_s() is None
    received_deadline.set(Deadline.after(5))
    assert 0 < remaining_s() <= 5

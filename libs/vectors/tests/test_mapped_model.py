"""Weights that are mapped from a file of the cache, and given back while nothing is embedded."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from searchbus_vectors import MINILM, MODEL_NAME, load_embedder, mapped_model, model_embedder
from searchbus_vectors import resolve_model as resolve
from searchbus_vectors.dense_model import DenseModel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="weights are mapped on Linux")
TEXTS = ["rates", "Wie hoch ist der Zins? \U0001f600", "", "interest rate " * 400]


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache of models."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def vectors(model: DenseModel) -> np.ndarray:
    return np.array([model.embed([text])[0] for text in TEXTS])


def mapped(folder: Path) -> list[tuple[int, int]]:
    """KiB in memory, and of these written, of each mapping of the folder's weights."""
    found, smaps = [], Path("/proc/self/smaps").read_text()
    for block in re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", smaps, flags=re.MULTILINE):
        if re.search(rf"{folder}/mapped-\w+/weights$", block.partition("\n")[0]):
            sizes = dict(re.findall(r"^(\w+): +(\d+) kB", block, re.MULTILINE))
            found.append((int(sizes["Rss"]), int(sizes["Anonymous"])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [MODEL_NAME, MINILM])
def test_mapped_weights_give_the_same_vectors_and_can_be_left_and_read_again(
    cache, name, tmp_path_factory
):
    folder = resolve(name=name)
    elsewhere = tmp_path_factory.mktemp("model") / "copy"
    elsewhere.mkdir()
    for file in folder.iterdir():
        (elsewhere / file.name).symlink_to(file.resolve())
    expected = vectors(DenseModel(elsewhere, name))
    assert not mapped(elsewhere)

    for _ in ("unpacked here", "found there"):
        model = DenseModel(folder, name)
        assert np.array_equal(vectors(model), expected)
        assert sum(rss for rss, _ in mapped(folder)) > 10_000
        model.rest()
        assert sum(rss for rss, _ in mapped(folder)) == 0
        assert np.array_equal(vectors(model), expected)
        # What is written would be lost with its page.
        assert all(written == 0 for _, written in mapped(folder))
        assert [file.name for file in folder.glob("draft-*")] == []


def test_a_model_is_loaded_where_the_processor_is_not_described(cache, monkeypatch):
    """As below systemd's ProcSubset=pid: its weights stay in memory."""
    monkeypatch.setattr(mapped_model, "_PROCESSOR", cache / "absent")
    model = DenseModel(resolve(), MODEL_NAME)
    model.rest()
    assert len(vectors(model)) == len(TEXTS)
    assert not mapped(resolve())


def test_a_draft_of_a_killed_process_is_removed(cache, caplog):
    """One that may still be written stays; one that goes away meanwhile is no failure."""
    folder = resolve(name=MINILM)
    old, new = folder / "draft-old", folder / "draft-new"
    for draft in (old, new):
        draft.mkdir()
        (draft / "weights").write_bytes(b"x")
    os.utime(old, (0, 0))
    (folder / "draft-gone").symlink_to("absent")  # listed, and not there when it is looked at
    DenseModel(folder, MINILM)
    assert (old.exists(), new.exists()) == (False, True)
    assert not caplog.text


@pytest.mark.slow
def test_an_embedder_without_texts_gives_the_weights_back(cache, monkeypatch):
    monkeypatch.setattr(model_embedder, "REST_AFTER_S", 0.01)

    async def main() -> None:
        embedder = await load_embedder()
        first = await embedder.embed_query("rates")
        # On a slow machine it rests during a query, and again after the next one.
        while sum(rss for rss, _ in mapped(resolve())) > 0:
            await embedder.embed_query("rates")
            await asyncio.sleep(0.1)
        assert await embedder.embed_query("rates") == first
        await embedder.close()

    asyncio.run(main())


@pytest.mark.slow
def test_texts_are_embedded_while_the_weights_are_given_back(cache):
    model = DenseModel(resolve(name=MINILM), MINILM)
    expected = model.embed(["rates"])

    async def main() -> None:
        loop = asyncio.get_running_loop()
        resting = loop.run_in_executor(None, lambda: [model.rest() for _ in range(50)])
        while not resting.done():
            assert np.array_equal(await asyncio.to_thread(model.embed, ["rates"]), expected)
        await resting

    asyncio.run(main())


@pytest.mark.slow
def test_weights_of_another_release_are_made_beside(cache, monkeypatch):
    """Those of the first one may be in use."""
    model = resolve() / "model_optimized.onnx"
    mapped_model.open_session(model)
    (first,) = model.parent.glob("mapped-*")
    monkeypatch.setattr(mapped_model.onnxruntime, "__version__", "another")
    mapped_model.open_session(model)
    assert first in (both := set(model.parent.glob("mapped-*")))
    assert len(both) == 2


@pytest.mark.parametrize("fault", ["differs", "damaged", "cannot be written"])
@pytest.mark.slow
def test_weights_that_cannot_be_mapped_stay_in_memory(cache, monkeypatch, caplog, fault):
    folder = resolve()
    model = folder / "model_optimized.onnx"
    if fault == "differs":
        outcomes = iter([np.zeros(1), np.ones(1)])
        monkeypatch.setattr(mapped_model, "_probe", lambda _: next(outcomes))
    elif fault == "damaged":
        mapped_model.open_session(model)
        (weights,) = folder.glob("mapped-*/weights")
        with weights.open("rb+") as file:
            file.truncate(weights.stat().st_size // 2)
    else:
        monkeypatch.setattr(mapped_model.tempfile, "TemporaryDirectory", _full)
    with caplog.at_level(logging.WARNING):
        session = mapped_model.open_session(model)
    assert session.run(None, _inputs())[0].shape[-1] == 384
    assert sum(rss for rss, _ in mapped(folder)) == 0
    assert "stay in memory" in caplog.text


def _full(**_: object) -> None:
    raise OSError(28, "No space left on device")


def _inputs() -> dict[str, np.ndarray]:
    ids = np.array([[101, 102]])
    return {"input_ids": ids, "attention_mask": ids // ids, "token_type_ids": ids * 0}

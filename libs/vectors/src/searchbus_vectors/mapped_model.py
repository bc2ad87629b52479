"""Sessions of the carried models whose weights are mapped from a file, so that they can be left.

onnxruntime unpacks weights into memory of its own: 89 MiB of MiniLM's 22, 40 of bge-small. Here it
does so once for a machine and keeps the result (180 MiB for both) beside the model, in the user's
cache; each process maps that file. Loading takes a third of the time, the vectors are the same to
the last bit, and an idle process gives the pages back (`leave`): the next text reads them again,
from the system's cache.

    <cache>/<model>/mapped-<machine and release>/model.onnx, weights
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from .models import cache_folder

log = logging.getLogger("searchbus.vectors")

_MODEL, _WEIGHTS, _DRAFT = "model.onnx", "weights", "draft-"
_LEFT_AFTER_S = 3600.0
"""A draft that is older is of a process that was killed."""
_PROCESSOR = Path("/proc/cpuinfo")
_MADV_DONTNEED = 4
_UNPACK = {
    "session.optimized_model_external_initializers_file_name": _WEIGHTS,
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
    "session.save_external_prepacked_constant_initializers": "1",
}


def open_session(model: Path) -> Any:
    """A session of a model file in one thread, its weights mapped where the file is in the cache.

    Elsewhere (`SEARCHBUS_MODEL_DIR`, another system than Linux, a cache that cannot be written)
    they are in the memory of the process.
    """
    in_cache = model.parent.parent == cache_folder()
    if sys.platform == "linux" and in_cache and _PROCESSOR.is_file():
        try:
            return _session(_unpacked(model))
        except Exception as error:  # onnxruntime's errors have no class of their own
            log.warning(
                "the weights of a model stay in memory, which takes up to 90 MB more (%s). Free "
                "space in %s, or delete its folders draft-* and mapped-*.", error, model.parent
            )  # fmt: skip
    return _session(model)


def leave(model: Path) -> None:
    """Give back the pages of mapped weights and of libraries' code, until they are needed.

    At any time: nothing writes to them, so the system reads them again as they were.
    """
    if sys.platform != "linux" or not _PROCESSOR.is_file():
        return
    libc = ctypes.CDLL(None)
    weights = f" {(_folder(model) / _WEIGHTS).resolve()}"
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        if line.endswith(weights) or (" r-xp " in line and line.endswith(".so")):
            first, last = (int(text, 16) for text in line.partition(" ")[0].split("-"))
            libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)


def _unpacked(model: Path) -> Path:
    """The model with its weights unpacked beside it, which is made where it is missing."""
    folder = _folder(model)
    if not (folder / _MODEL).is_file():
        for left in model.parent.glob(f"{_DRAFT}*"):
            with suppress(FileNotFoundError):  # another process has just removed its own
                if time.time() - left.stat().st_mtime > _LEFT_AFTER_S:
                    shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_DRAFT, dir=model.parent) as draft:
            made = Path(draft) / folder.name
            made.mkdir()
            whole = _session(model, unpacked=made / _MODEL)
            if not np.array_equal(_probe(whole), _probe(_session(made / _MODEL))):
                raise OSError(f"{made / _WEIGHTS} differs from the model. Check the disk.")
            for file in made.iterdir():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
            with suppress(OSError):  # another process was first
                made.rename(folder)
    return folder / _MODEL


def _folder(model: Path) -> Path:
    """Unpacked weights suit a release of onnxruntime and the vector instructions of a processor."""
    described = _PROCESSOR.read_text()
    features = sorted(
        set(re.findall(r"\b(?:amx|asimd|avx|bf16|f16c|fma|i8mm|s[mv]e)\w*", described))
    )
    made_for = f"{onnxruntime.__version__} {platform.machine()} {features}"
    return model.parent / f"mapped-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}"


def _session(model: Path, *, unpacked: Path | None = None) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if unpacked is not None:
        options.optimized_model_filepath = str(unpacked)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        for name, value in _UNPACK.items():
            options.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _probe(session: Any) -> Any:
    ids = np.arange(1000, 1512, dtype=np.int64)[np.newaxis]
    inputs = {"input_ids": ids, "attention_mask": ids // ids, "token_type_ids": np.zeros_like(ids)}
    return session.run(None, inputs)[0]

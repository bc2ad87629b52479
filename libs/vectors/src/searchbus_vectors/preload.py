"""Imports and loads what the configured embedder needs; for a launcher, which forks afterwards."""

import os
from contextlib import suppress
from pathlib import Path

from .models import MODEL_NAME, ModelNotFoundError, resolve_model

# onnxruntime has a thread that sends usage data to its vendor; no thread lives on in a fork.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
if os.environ.get("SEARCHBUS_EMBEDDER") != "hash":
    from .dense_model import shared_model

    # The services say what to do where it is missing.
    with suppress(ModelNotFoundError):
        folder = os.environ.get("SEARCHBUS_MODEL_DIR")
        shared_model(resolve_model(Path(folder) if folder else None), MODEL_NAME)

"""Imports what the configured embedder needs; for a launcher, which forks afterwards.

fastembed takes longer to import than everything else in a service that embeds.
"""

import os
from importlib import import_module

# onnxruntime has a thread that sends usage data to its vendor; no thread lives on in a fork.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
if os.environ.get("SEARCHBUS_EMBEDDER") != "hash":
    import_module("searchbus_vectors.dense_model")

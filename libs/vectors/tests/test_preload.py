"""What a launcher imports for the services that embed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import searchbus_vectors.preload
from pathlib import Path
print("fastembed" in sys.modules, len(list(Path("/proc/self/task").iterdir())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the launcher needs Linux")
@pytest.mark.parametrize(("embedder", "printed"), [("model", "True 1"), ("hash", "False 1")])
def test_imports_what_the_embedder_needs_and_starts_no_thread(monkeypatch, embedder, printed):
    """A process with threads must not fork."""
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", embedder)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # as the launcher does
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == printed

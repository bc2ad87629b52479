"""What a launcher imports and loads for the services that embed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import searchbus_vectors.preload
from pathlib import Path
print("fastembed" in sys.modules, "onnxruntime" in sys.modules, len(list(Path("/proc/self/task").iterdir())))
"""
FORKS = """
import asyncio, os, sys
import searchbus_vectors.preload
from searchbus_vectors import dense_model, load_embedder
assert dense_model.shared_model.cache_info().currsize == 1
dense_model.DenseModel = None  # nothing is loaded again
for _ in range(2):
    if os.fork() == 0:
        async def main():
            embedder = await load_embedder()
            found = round((await embedder.embed_query("rates")).dense[0], 3)
            os.write(1, f"{found}\\n".encode())  # at once: both write to one pipe
            vectors = await embedder.embed_documents(["The rates of " + "banks " * n for n in range(9)])
            await embedder.close()
            sys.exit(len(vectors) - 9)
        asyncio.run(main())
assert [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)] == [0, 0]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the launcher needs Linux")
@pytest.mark.parametrize(
    ("embedder", "printed"), [("model", "False True 1"), ("hash", "False False 1")]
)
def test_imports_what_the_embedder_needs_and_starts_no_thread(monkeypatch, embedder, printed):
    """A process with threads must not fork."""
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", embedder)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # as the launcher does
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == printed


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the launcher needs Linux")
def test_model_is_loaded_once_and_computes_in_every_fork(monkeypatch):
    """By several threads, as in a service."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    first, second = run(FORKS).split()
    assert first == second


@pytest.mark.parametrize("files", [(), ("model_optimized.onnx",)])
def test_model_that_is_missing_is_left_to_the_services(monkeypatch, tmp_path, files):
    """They say what to do."""
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setenv("SEARCHBUS_MODEL_DIR", str(tmp_path))
    assert run(PROGRAM).startswith("False True")

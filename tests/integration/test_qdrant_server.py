"""A real Qdrant server behind the whole stack: its suite, and what callers see when it is away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from searchbus_testing import Stack, eventually, post

from .engine import ROOT
from .qdrant import QdrantServer, qdrant_binary

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[QdrantServer]:
    if qdrant_binary() is None:
        pytest.skip("there is no qdrant program, neither on the PATH nor beside the checkout")
    server = QdrantServer(tmp_path / "qdrant")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def stack(server: QdrantServer, tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(
        tmp_path / "data",
        environment={"SEARCHBUS_QDRANT_URL": server.url, "SEARCHBUS_EMBEDDER": "hash"},
    )
    stack.start()
    yield stack
    stack.stop()


def write_documents(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        text = f"# River {number}\n\n" + f"The river number {number} flows north. " * 30
        (folder / f"{number}.md").write_text(text)
    return folder


def test_a_start_waits_for_a_server_that_is_not_up_yet(server, nats_server, tmp_path):
    """As on a machine that boots, or in a cluster."""
    server.kill()
    settings = {
        "NATS_URL": nats_server.url, "SUBJECT_PREFIX": "later", "DATA_DIR": tmp_path,
        "QDRANT_URL": server.url, "EMBEDDER": "hash", "CONNECT_TIMEOUT_S": 600,
    }  # fmt: skip
    environment = {f"SEARCHBUS_{name}": str(value) for name, value in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "searchbus_runtime", "retrieval"],
        env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert any("waiting for the document store" in line for line in process.stderr)
    server.start()
    assert any("retrieval is up" in line for line in process.stderr)
    process.terminate()
    assert process.wait(300) == 0


def search(stack: Stack) -> dict[str, Any]:
    """The result of search_fomc, or its error."""
    arguments = {"query": "river"}
    answer = post(stack.url + "/mcp", "tools/call", name="search_fomc", arguments=arguments)
    content = answer.json()["result"]["structuredContent"]
    return content.get("error", content)


def found(stack: Stack) -> bool:
    return bool(search(stack).get("results"))


def test_the_store_behaves_the_same_on_a_real_server(server):
    """What holds for the embedded engine holds for a server."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "libs/vectors/tests/test_store.py", "-k", "server"],
        env={**os.environ, "QDRANT_URL": server.url}, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize(("leave", "come_back"), [("kill", "start"), ("freeze", "thaw")])
def test_a_server_that_is_away_is_named_and_back_at_once(stack, server, tmp_path, leave, come_back):
    """Typed for callers, seen by readiness and doctor; nothing waits for a request's whole time."""
    stack.command("ingest", write_documents(tmp_path / "docs", 3), "--collection", "fomc")
    assert found(stack)
    away = (
        f"Qdrant at 127.0.0.1:{server.port} does not respond. "
        "It stores the documents. Try again shortly."
    )
    getattr(server, leave)()
    first, *later = [search(stack) for _ in range(5)]
    for error in (first, *later):
        assert (error["code"], error["message"], error["retryable"]) == ("unavailable", away, True)
    checks = stack.command("doctor")
    assert checks.returncode != 0
    assert (
        f"FAIL collections        retrieval does not list them: unavailable: {away}"
        in checks.stdout
    )
    getattr(server, come_back)()
    eventually(lambda: found(stack))
    assert stack.command("doctor").returncode == 0


@pytest.mark.parametrize(("leave", "come_back"), [("kill", "start"), ("freeze", "thaw")])
def test_an_ingest_loses_nothing_while_the_server_is_away(
    stack, server, tmp_path, leave, come_back
):
    """It waits, and sends again what was not confirmed."""
    folder = write_documents(tmp_path / "docs", 900)
    ingest = stack.spawn(
        "ingest", folder, "--collection", "rivers", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    eventually(lambda: stored(server) > 0, timeout_s=300)
    getattr(server, leave)()
    eventually(lambda: "does not answer" in logs(stack), timeout_s=300)
    getattr(server, come_back)()
    output, _ = ingest.communicate(timeout=600)
    assert ingest.returncode == 0, output
    again = stack.command("ingest", folder, "--collection", "rivers")
    assert "0 stored, 0 replaced, 900 unchanged" in again.stdout


def stored(server: QdrantServer) -> int:
    answer = httpx.post(
        f"{server.url}/collections/rivers/points/count", json={"exact": True}, timeout=60
    )
    return answer.json()["result"]["count"] if answer.status_code == 200 else 0


def logs(stack: Stack) -> str:
    return "".join(path.read_text() for path in (stack.data / "logs").glob("retrieval*"))

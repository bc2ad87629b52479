"""What is left after kill -9, Ctrl-C and `make run`. Each test has a stack of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from searchbus_testing import alive, descendants, eventually
from searchbus_vectors import Equals, open_store


@pytest.mark.slow
def test_dead_service_is_started_again_and_ctrl_c_leaves_no_process(start_stack, tmp_path):
    """kill -9 of a service heals; SIGINT stops every process."""
    stack = start_stack(tmp_path)
    first = stack.state["processes"]
    os.kill(first["retrieval"], signal.SIGKILL)
    eventually(lambda: stack.state["processes"]["retrieval"] != first["retrieval"], timeout_s=300)
    eventually(lambda: httpx.get(f"{stack.url}/readyz", timeout=60).status_code == 200)
    pids = set(stack.state["processes"].values())
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(300) == 0
    assert alive(pids) == set()
    assert not (tmp_path / "state.json").exists()


@pytest.mark.slow
def test_kill_minus_nine_of_up_leaves_no_orphans(start_stack, tmp_path):
    """Its children end, and their children too: the processes that parse pages."""
    stack = start_stack(tmp_path, "--fake-upstreams")
    httpx.post(
        f"{stack.url}/api/v1/tools/web_extract_content", timeout=300,
        json={"urls": ["http://site1.example.org/1"]},
    ).raise_for_status()  # fmt: skip
    processes = descendants(stack.process.pid)
    pids = {process.pid for process in processes}
    assert set(stack.state["processes"].values()) < pids
    stack.process.kill()
    stack.process.wait()
    eventually(lambda: not alive(pids), timeout_s=300)


@pytest.mark.slow
def test_make_run_shows_that_it_works_and_stays_up(tmp_path):
    """From the documentation to a traced answer; Ctrl-C ends it, and no process is left."""
    root = Path(__file__).parents[2]
    log = (tmp_path / "run.log").open("w+")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "SEARCHBUS_EMBEDDER": "hash",
        "SEARCHBUS_DATA_DIR": str(tmp_path / "data"),
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    running = subprocess.Popen(
        [root / "scripts" / "run", "--port", "0"], cwd=root, env=environment,
        stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    try:
        patterns = re.findall(r"--include '([^']+)'", (root / "scripts" / "run").read_text())
        pages = len({page for pattern in patterns for page in root.glob(pattern)})
        read = (tmp_path / "run.log").read_text
        eventually(
            lambda: f"docs: {pages - 3} stored" in read() or running.poll() is not None,
            timeout_s=900,
            message=read,
        )
        text = read()
        assert running.poll() is None, text
        first, _, rest = text.partition("Stop with Ctrl-C.")
        assert "docs: 3 stored" in first
        assert "retrieval.search" in first
        assert "3 unchanged" in rest
        pids = json.loads((tmp_path / "data" / "state.json").read_text())["processes"].values()
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    finally:
        os.killpg(running.pid, signal.SIGINT)
        running.wait(300)
    eventually(lambda: not alive(pids), timeout_s=300)


COLLECTIONS = ("first", "second")


@pytest.mark.slow
def test_kill_minus_nine_in_the_middle_ends_with_the_same_ids(start_stack, tmp_path):
    """A killed ingest and a killed service, run again, leave what an undisturbed run leaves."""
    files = {name: tmp_path / f"{name}.jsonl" for name in COLLECTIONS}
    for path in files.values():
        rows = (
            {"id": f"note-{n}", "title": f"Note {n}", "text": f"Note {n} is about whale {n % 7}."}
            for n in range(1000)
        )
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stack = start_stack(tmp_path / "data")

    def begin(collection: str) -> subprocess.Popen[str]:
        """Start to ingest; return when some documents are stored."""
        running = stack.spawn(
            "ingest", files[collection], "--collection", collection,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def some_are_stored() -> bool:
            done = stack.command("search", "whale", "--collection", collection, "--json")
            return done.returncode == 0 and bool(json.loads(done.stdout)["hits"])

        eventually(lambda: running.poll() is not None or some_are_stored(), interval_s=0.01)
        return running

    running = begin("first")
    running.kill()
    running.wait()

    before = stack.state["processes"]["retrieval"]
    running = begin("second")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: stack.state["processes"]["retrieval"] != before, timeout_s=300)
    # It would wait for the batch that the killed service had taken, until that one's deadline.
    running.kill()
    running.wait()

    def ingest(collection: str):
        done = stack.command("ingest", files[collection], "--collection", collection, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    for name in COLLECTIONS:
        summary = eventually(lambda name=name: ingest(name), timeout_s=300)
        assert summary["stored"] + summary["replaced"] + summary["unchanged"] == 1000
    fresh = start_stack(tmp_path / "fresh")
    for name, path in files.items():
        assert fresh.command("ingest", path, "--collection", name).returncode == 0
    assert _ids(stack) == _ids(fresh)


def _ids(stack) -> set[tuple[str, str]]:
    """Every chunk's id with its document's, from the store itself, once the owner has gone."""
    stack.stop()

    async def read():
        store = await open_store(folder=stack.data / "qdrant")
        pages = [
            await store.scroll(name, where=Equals("kind", "chunk"), limit=100_000)
            for name in COLLECTIONS
        ]
        await store.close()
        return [record for page in pages for record in page.records]

    records = asyncio.run(read())
    assert len(records) == 2000
    assert all(record.payload["live"] for record in records)
    return {(record.id, record.payload["document_id"]) for record in records}

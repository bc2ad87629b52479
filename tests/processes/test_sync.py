"""`searchbus sync` with a real bus and store: killed in the middle, and as a process of the stack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from searchbus_testing import Stack, eventually

pytestmark = pytest.mark.slow
COUNT = 600
"""The kill comes while they are sent."""


def write_documents(folder: Path, count: int = COUNT) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        text = f"# River {number}\n\n" + f"The river {number} flows north past the town. " * 120
        (folder / f"{number}.md").write_text(text)
    return folder


def stored(stack: Stack, collection: str) -> int:
    """How many documents a collection has, of which each is whole."""
    done = stack.command("backup", stack.data.parent / f"{os.urandom(4).hex()}.tar", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["collections"].get(collection, 0)


def synced(stack: Stack, *arguments: object) -> dict:
    done = stack.command("sync", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def stack(start_stack, tmp_path_factory) -> Stack:
    return start_stack(tmp_path_factory.mktemp("sync") / "data", "--secure")


def test_killed_sync_goes_on_and_embeds_nothing_twice(stack, tmp_path):
    """And an unchanged source embeds nothing at all."""
    folder = write_documents(tmp_path / "rivers")
    running = stack.spawn("sync", folder, "--collection", "rivers", stderr=subprocess.DEVNULL)
    eventually(lambda: stored(stack, "rivers") > 0 or running.poll() is not None, interval_s=0.01)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL, "it had ended before"
    before = stored(stack, "rivers")
    resumed = synced(stack, folder, "--collection", "rivers")
    # What was on its way when the sender was killed may be stored after the count.
    assert resumed["stored"] <= COUNT - before
    assert resumed["stored"] + resumed["unchanged"] == COUNT
    assert 0 < before < COUNT == stored(stack, "rivers")
    again = synced(stack, folder, "--collection", "rivers")
    assert (again["chunks"], again["unchanged"]) == (0, COUNT)


def test_changes_deletes_and_a_source_that_is_away(stack, tmp_path):
    """Only the changed document is embedded; what others stored stays."""
    folder = write_documents(tmp_path / "lakes", 8)
    one = tmp_path / "own.md"
    one.write_text("An ingested document about lakes.")
    assert stack.command("ingest", one, "--collection", "lakes").returncode == 0
    first = synced(stack, folder, "--collection", "lakes")
    (folder / "0.md").write_text("# Lake 0\n\nIt is dry.")
    (folder / "1.md").unlink()
    (folder / "2.md").rename(folder / "two.md")
    found = synced(stack, folder, "--collection", "lakes")
    assert [found[word] for word in ("stored", "replaced", "deleted", "unchanged")] == [1, 1, 2, 5]
    assert 0 < found["chunks"] < first["chunks"] / 2
    folder.rename(tmp_path / "away")
    assert stack.command("sync", folder, "--collection", "lakes").returncode == 2
    folder.mkdir()
    assert stack.command("sync", folder, "--collection", "lakes").returncode == 1
    assert stored(stack, "lakes") == 7 + 1


def test_stack_syncs_the_sources_of_its_data_folder(stack, tmp_path):
    """Once the file is there, with the operator's keys; the stack ends it with itself."""
    folder = write_documents(tmp_path / "hills", 3)
    assert "sync" not in stack.state["processes"]
    (stack.data / "sources.toml").write_text(
        f'[[source]]\nname = "hills"\nsource = "{folder}"\ncollection = "hills"\nevery = "10s"\n'
    )
    log = stack.data / "logs" / "sync.log"
    eventually(lambda: log.exists() and "hills: 3 stored" in log.read_text())
    (folder / "0.md").unlink()
    eventually(lambda: "1 deleted" in log.read_text())
    pid = stack.state["processes"]["sync"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: stack.state["processes"].get("sync", pid) != pid)
    assert "hills (" in stack.command("doctor").stdout
    last = stack.state["processes"]["sync"]
    assert stack.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)

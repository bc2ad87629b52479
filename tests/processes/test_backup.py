"""Backup of a running stack, and what restores it: another folder, the same one, another engine."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tarfile
from pathlib import Path

import pytest

from searchbus_testing import SEARCHBUS, Stack

from ..integration.qdrant import QdrantServer, qdrant_binary

pytestmark = pytest.mark.slow
COUNT = 40


@pytest.fixture
def environment() -> dict[str, str]:
    return {"SEARCHBUS_EMBEDDER": "hash"}


def write_documents(folder: Path, word: str) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(COUNT):
        text = f"# River {number}\n\n" + f"The river flows {word} past {town(number)}. " * 150
        (folder / f"{number}.md").write_text(text)
    return folder


def run(stack: Stack, *arguments: object, code: int = 0) -> str:
    """The output of a command in the settings of a stack, as a process of its own."""
    return command(*arguments, code=code, SEARCHBUS_DATA_DIR=str(stack.data), **stack.environment)


def command(*arguments: object, code: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [SEARCHBUS, *map(str, arguments)], env={**os.environ, **environment}, capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def town(number: int) -> str:
    """A name of its own for each document."""
    return "".join(random.Random(number).choices("abcdefghiklmnoprstu", k=10))


def answers(stack: Stack) -> dict[str, float]:
    """The documents that answer some questions, with how well their best passages do."""
    found = {}
    for number in range(0, COUNT, 8):
        question = f"Which river flows past {town(number)}?"
        printed = run(stack, "search", question, "--collection", "rivers", "--json")
        best = json.loads(printed)["hits"][0]
        found[best["document_id"]] = best["cosine"]
    assert len(found) == COUNT / 8
    return found


def test_backup_of_a_serving_stack_is_restored_elsewhere(start_stack, tmp_path, environment):
    """While an ingest replaces every document: each is whole in the copy, the old or the new one."""
    stack = start_stack(tmp_path / "data", "--secure", **environment)
    source = write_documents(tmp_path / "docs", "north")
    run(stack, "ingest", source, "--collection", "rivers")
    (stack.data / "searchbus.toml").write_text('log_level = "info"\n')
    (stack.data / "pins.json").write_text("{}")
    write_documents(source, "south")
    ingest = stack.spawn("ingest", source, "--collection", "rivers", stdout=subprocess.PIPE)
    running = json.loads(run(stack, "backup", tmp_path / "running", "--json"))
    ingest.communicate(timeout=600)
    assert running["collections"] == {"rivers": COUNT}
    tar = tmp_path / "backup.tar"
    made = json.loads(run(stack, "backup", tar, "--json"))
    assert set(made["files"]) == {"searchbus.toml", "pins.json", "edge.key", "secure/keys.json"}
    assert tar.stat().st_mode & 0o777 == 0o600
    wanted = answers(stack)
    refused = run(stack, "restore", tar, code=2)
    assert f"already running on {stack.data}" in refused
    stack.stop()
    for backup, name in ((tmp_path / "running", "one"), (tar, "two")):
        restored = tmp_path / name
        # The command of a stack that is stopped: there is none to ask.
        output = run(stack, "restore", backup, "--data", restored, "--json")
        assert json.loads(output)["collections"] == {"rivers": COUNT}
        kept = {"searchbus.toml", "pins.json", "edge.key", "secure", "qdrant"}
        assert {path.name for path in restored.iterdir()} == kept
        for path in ("pins.json", "edge.key", "secure/keys.json"):
            assert (restored / path).stat().st_mode & 0o777 == 0o600
            assert (restored / path).read_bytes() == (stack.data / path).read_bytes()
    second = start_stack(tmp_path / "two", "--secure", **environment)
    assert answers(second) == wanted
    again = run(second, "ingest", source, "--collection", "rivers")
    assert f"0 stored, 0 replaced, {COUNT} unchanged" in again
    second.stop()
    first = start_stack(tmp_path / "one", "--secure", **environment)
    again = run(first, "ingest", source, "--collection", "rivers")
    assert "0 stored, " in again
    assert answers(first).keys() == wanted.keys()


def test_nothing_is_replaced_by_a_damaged_backup_or_without_asking(
    start_stack, tmp_path, environment
):
    """And what is replaced is kept."""
    stack = start_stack(tmp_path / "data", **environment)
    run(stack, "ingest", write_documents(tmp_path / "docs", "north"), "--collection", "rivers")
    backup = tmp_path / "backup"
    run(stack, "backup", backup)
    assert "there already" in run(stack, "backup", backup, code=2)
    stack.stop()
    before = contents(stack.data)
    assert "is in use" in run(stack, "restore", backup, code=2)
    damaged = tmp_path / "damaged"
    content = bytearray(backup.read_bytes())
    with tarfile.open(backup) as tar:
        member = tar.getmember("collections/rivers.jsonl")
    content[member.offset_data + member.size // 2] ^= 1
    damaged.write_bytes(content)
    assert "rivers.jsonl is damaged" in run(stack, "restore", damaged, "--replace", code=2)
    assert contents(stack.data) == before
    assert [p.name for p in tmp_path.glob(".*")] == []
    output = json.loads(run(stack, "restore", backup, "--replace", "--json"))
    assert contents(Path(output["kept"])) == before
    stack.start()
    assert answers(stack)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("up.lock", ".owner")
    }


def test_documents_move_to_a_qdrant_server(start_stack, tmp_path, environment):
    """Without embedding them again; and from a stack on it back into a running one."""
    if qdrant_binary() is None:
        pytest.skip("there is no qdrant program, neither on the PATH nor beside the checkout")
    stack = start_stack(tmp_path / "data", **environment)
    source = write_documents(tmp_path / "docs", "north")
    run(stack, "ingest", source, "--collection", "rivers")
    run(stack, "backup", tmp_path / "embedded")
    wanted = answers(stack)
    stack.stop()
    server = QdrantServer(tmp_path / "qdrant")
    server.start()
    try:
        settings = {**environment, "SEARCHBUS_QDRANT_URL": server.url}
        command("restore", tmp_path / "embedded", "--data", tmp_path / "moved", **settings)
        moved = start_stack(tmp_path / "moved", **settings)
        assert answers(moved) == pytest.approx(wanted, abs=1e-3)
        again = run(moved, "ingest", source, "--collection", "rivers")
        assert f"0 stored, 0 replaced, {COUNT} unchanged" in again
        run(moved, "backup", tmp_path / "server.tar")
        # Over the bus of a stack that runs: its documents only.
        remote = {**settings, "SEARCHBUS_NATS_URL": moved.state["nats_url"]}
        onto = ("restore", tmp_path / "server.tar", "--data", tmp_path / "none")
        assert "names already: rivers" in command(*onto, code=2, **remote)
        command(*onto, "--replace", **remote)
        assert answers(moved) == pytest.approx(wanted, abs=1e-3)
        moved.stop()
    finally:
        server.kill()
    run(stack, "restore", tmp_path / "server.tar", "--data", tmp_path / "back")
    back = start_stack(tmp_path / "back", **environment)
    assert answers(back) == pytest.approx(wanted, abs=1e-3)

"""`searchbus sync` in this process, on a bus in memory."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from unittest.mock import ANY, Mock

import pytest
import typer
from typer.testing import CliRunner

from searchbus_contracts import ErrorCode, Fault
from searchbus_ingest.sync import jobs, sync_command
from searchbus_ingest.sync.jobs import Syncing
from searchbus_ingest.sync.rows import read_rows
from searchbus_ingest.sync.state import check
from searchbus_ingest.sync.sync_command import _Run
from searchbus_ingest.sync.syncing import Sync
from searchbus_testing import until

app = typer.Typer()
app.command()(sync_command.sync)


@pytest.fixture
def bus(command_bus, monkeypatch):
    found = {"bus": command_bus}
    for module in ("searchbus_runtime.connection", sync_command.__name__):
        monkeypatch.setattr(f"{module}.find_bus", lambda folder: found["bus"])
    return found


@pytest.fixture
def run(bus, tmp_path):
    def run(*arguments: object):
        return CliRunner().invoke(app, [*map(str, arguments), "--data", str(tmp_path / "data")])

    return run


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.md").write_text(f"Whales of {name}.")
    return folder


def test_folder_is_synced(run, notes, retrieval):
    """New, changed and deleted documents are counted."""
    done = run(notes, "--collection", "c")
    assert done.exit_code == 0
    assert "3 stored, 0 replaced, 0 unchanged, 0 deleted, 0 not read; 3 passages" in done.stdout
    (notes / "a.md").unlink()
    (notes / "b.md").write_text("Dolphins.")
    found = json.loads(run(notes, "--collection", "c", "--json").stdout)
    assert {"replaced": 1, "unchanged": 1, "deleted": 1, "held": 0}.items() <= found.items()


def test_held_deletes_exit_with_one_until_they_are_allowed(run, notes, retrieval):
    """The note has the option."""
    run(notes, "--collection", "c")
    for path in notes.iterdir():
        path.unlink()
    done = run(notes, "--collection", "c")
    assert done.exit_code == 1
    assert "--allow-deletes" in done.stderr
    done = run(notes, "--collection", "c", "--allow-deletes")
    assert (done.exit_code, len(retrieval.documents)) == (0, 0)


def test_files_that_cannot_be_read_exit_with_one(run, notes, retrieval):
    """The others are stored."""
    (notes / "d.pdf").write_bytes(b"not a PDF")
    done = run(notes, "--collection", "c")
    assert done.exit_code == 1
    assert "d.pdf: cannot be read" in done.stderr
    assert len(retrieval.documents) == 3


def test_name_keeps_documents_when_the_folder_moves(run, notes, retrieval):
    """Nothing is sent again."""
    run(notes, "--collection", "c", "--name", "notes")
    moved = notes.rename(notes.with_name("moved"))
    assert "3 replaced" in run(moved, "--collection", "c", "--name", "notes").stdout
    assert len(retrieval.documents) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give a source, or --file"),
        (["x", "--file", "y"], "Give a source, or --file"),
        (["x"], "Give the collection"),
        (["x", "--collection", "a@b"], "collection: use 1 to 64"),
        (["nothing", "--collection", "c"], "No such file"),
        (["x", "--collection", "c", "--every", "1x"], "write 30s, 15m"),
        (["ftp://x", "--collection", "c"], "use a path"),
        (
            ["https://[oops/feed.xml", "--collection", "c"],
            "source: https://[oops/feed.xml is not a",
        ),
        (
            ["http://localhost:99999/feed", "--collection", "c"],
            "source: http://localhost:99999/feed",
        ),
        (["https://a.example/f", "--collection", "c", "--include", "*.md"], "include: only files"),
        (["--file", "nothing.toml"], "cannot be read"),
    ],
)
def test_wrong_arguments_exit_with_two(run, arguments, message):
    """The message says what is valid."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_without_a_stack_the_message_says_how_to_start_one(run, notes, bus):
    """As for an ingest."""
    bus["bus"] = None
    done = run(notes, "--collection", "c")
    assert done.exit_code == 2
    assert "searchbus up" in done.stderr


def write_file(folder, *names):
    rows = (
        f'[[source]]\nname = "{n}"\nsource = "./notes"\ncollection = "{n}"\nevery = "10s"\n'
        for n in names
    )
    (folder / "sources.toml").write_text("".join(rows))
    return folder / "sources.toml"


def test_sources_of_a_file_are_synced_once(run, notes, retrieval, tmp_path):
    """Each, whatever happens to another."""
    file = write_file(tmp_path, "a", "b")
    file.write_text(file.read_text().replace("./notes", "./nothing", 1))
    done = run("--file", file, "--once")
    assert done.exit_code == 2
    assert "nothing: No such file" in done.stderr
    assert "b: 3 stored" in done.stdout


def test_source_that_hangs_holds_up_no_other(run, notes, tmp_path, monkeypatch):
    """And it ends by itself: the reason is printed, and remembered for `searchbus doctor`."""
    assert jobs.MAX_SYNC_S == 86_400.0
    sync_once, run_once = Syncing._sync, Sync.run

    async def limited(self, row, *rest):
        monkeypatch.setattr(jobs, "MAX_SYNC_S", 0.1 if row.name == "a" else 86_400.0)
        return await sync_once(self, row, *rest)

    async def hanging(self):
        if self.state.name == "a":
            await asyncio.Event().wait()
        return await run_once(self)

    monkeypatch.setattr(Syncing, "_sync", limited)
    monkeypatch.setattr(Sync, "run", hanging)
    done = run("--file", write_file(tmp_path, "a", "b"), "--once")
    assert done.exit_code == 2
    assert "a: it took longer than 24 hours; the next sync goes on" in done.stderr
    assert "b: 3 stored" in done.stdout
    assert "took longer" in check(tmp_path / "data")[2]


def test_sources_that_take_long_hold_up_no_other(run, notes, tmp_path, monkeypatch):
    """As many as may begin at once: the next one begins before they end."""
    run_once, ended = Sync.run, asyncio.Event()

    async def long(self):
        if self.state.name == "last":
            ended.set()
        else:
            await ended.wait()
        return await run_once(self)

    monkeypatch.setattr(sync_command, "SLOT_S", 0.0)
    monkeypatch.setattr(Sync, "run", long)
    file = write_file(tmp_path, *"abcd"[: sync_command.AT_ONCE], "last")
    done = run("--file", file, "--once")
    assert (done.exit_code, done.stdout.count("3 stored")) == (0, sync_command.AT_ONCE + 1)


def test_fault_of_ours_in_one_source_holds_up_no_other(run, notes, tmp_path, monkeypatch):
    """It is printed, remembered for `searchbus doctor`, and the exit code tells of it."""
    sync_once = Syncing._sync

    async def played(self, row, *rest):
        if row.name == "a":
            raise ZeroDivisionError("ours")
        return await sync_once(self, row, *rest)

    monkeypatch.setattr(Syncing, "_sync", played)
    done = run("--file", write_file(tmp_path, "a", "b"), "--once")
    assert done.exit_code == 2
    assert "a: ZeroDivisionError: ours" in done.stderr
    assert "b: 3 stored" in done.stdout
    assert check(tmp_path / "data")[1:] == (False, ANY)


def test_damaged_keys_of_its_stack_end_the_command_with_the_fault(run, tmp_path, monkeypatch):
    """The stack shows it, and starts the command again."""
    damaged = Fault(ErrorCode.UNAVAILABLE, "keys.json is damaged. Delete it.")
    monkeypatch.setattr(sync_command, "find_bus", Mock(side_effect=damaged))
    done = run("--file", write_file(tmp_path, "a"), "--wait")
    assert (done.exit_code, done.stderr) == (2, "error: keys.json is damaged. Delete it.\n")


async def test_file_is_followed(bus, notes, retrieval, tmp_path, monkeypatch, capsys):
    """New rows are synced, and a wrong file changes nothing; so does a stack that is not there."""
    monkeypatch.setattr(sync_command, "LOOK_EVERY_S", 0.01)
    there, bus["bus"] = bus["bus"], None
    data, file = tmp_path / "data", write_file(tmp_path, "a")
    syncing = Syncing(data, base=tmp_path)
    work = asyncio.create_task(
        _Run(syncing, as_json=False, verbose=False).keep(
            lambda: read_rows(file), file, data, wait=True
        )
    )
    await asyncio.sleep(0.1)
    assert not retrieval.documents
    bus["bus"] = there
    await until(lambda: len(retrieval.documents) == 3)
    file.write_text("[[")
    await until(lambda: "error: " in capsys.readouterr().err)
    write_file(tmp_path, "b")
    await until(lambda: len(retrieval.documents) == 6)
    assert not work.done()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def test_sources_are_synced_again_after_their_time(
    bus, notes, retrieval, tmp_path, monkeypatch, capsys
):
    """A failure is tried again after a minute at most, and ends nothing."""
    monkeypatch.setattr(sync_command, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(sync_command, "AFTER_FAILURE_S", 0.01)
    monkeypatch.setattr(sync_command, "seconds_of", lambda every: 0.01)
    file = write_file(tmp_path, "a")
    away = notes.rename(tmp_path / "away")
    syncing = Syncing(tmp_path / "data", base=tmp_path)
    run = _Run(syncing, as_json=False, verbose=False)
    work = asyncio.create_task(run.keep(lambda: read_rows(file), file, tmp_path, wait=False))
    await until(lambda: run.code == 2)
    with monkeypatch.context() as played:
        played.setattr(syncing, "run", Mock(side_effect=ZeroDivisionError("ours")))
        await until(lambda: "ZeroDivisionError: ours" in capsys.readouterr().err)
    away.rename(notes)
    await until(lambda: len(retrieval.documents) == 3)
    (notes / "d.md").write_text("Seals.")
    await until(lambda: len(retrieval.documents) == 4)
    assert not work.done()
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work

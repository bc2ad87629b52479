"""`searchbus ingest` in this process, on a bus in memory."""

from __future__ import annotations

import json
import logging
import warnings

import pytest
import typer
from typer.testing import CliRunner

from searchbus_contracts import ErrorCode, Fault
from searchbus_ingest import ingest_command
from searchbus_ingest.sources import content

app = typer.Typer()
app.command()(ingest_command.ingest)


@pytest.fixture
def run(command_bus, monkeypatch, tmp_path):
    monkeypatch.setattr(ingest_command, "find_bus", lambda folder: command_bus)

    def run(*arguments: object):
        return CliRunner().invoke(app, [*map(str, arguments), "--data", str(tmp_path / "data")])

    return run


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Whales\n\nThey sing.\n")
    (folder / "b.txt").write_text("Dolphins whistle.")
    return folder


def test_folder_is_stored_and_a_second_run_changes_nothing(run, notes):
    """The summary has every count."""
    done = run(notes, "--collection", "c", "--json")
    assert done.exit_code == 0
    summary = json.loads(done.stdout)
    assert {"collection": "c", "stored": 2, "chunks": 2, "skipped": []}.items() <= summary.items()
    again = run(notes, "--collection", "c")
    assert "0 stored, 0 replaced, 2 unchanged, 0 skipped" in again.stdout


def test_skipped_documents_are_named_and_exit_with_one(run, notes):
    """The others are stored."""
    (notes / "c.pdf").write_bytes(b"not a PDF")
    done = run(notes, "--collection", "c")
    assert done.exit_code == 1
    assert "c.pdf: cannot be read" in done.stderr
    assert "2 stored" in done.stdout


def test_what_is_left_out_is_counted_by_reason(run, notes):
    """And named with --verbose or as JSON; it is no failure."""
    for name in ("c.xls", "d.png", ".hidden"):
        (notes / name).write_text("x")
    done = run(notes, "--collection", "c")
    assert done.exit_code == 0
    assert "3 skipped" in done.stdout
    assert "skipped: 2 unsupported type, 1 hidden or generated" in done.stdout
    assert "c.xls" not in done.stderr
    assert (
        "c.xls: .xls files are not read; save"
        in run(notes, "--collection", "c", "--verbose").stderr
    )
    summary = json.loads(run(notes, "--collection", "c", "--json").stdout)
    assert summary["skipped_by_reason"] == {"unsupported type": 2, "hidden or generated": 1}
    assert [text.partition(":")[0] for text in summary["skipped"]] == [".hidden", "c.xls", "d.png"]
    assert summary["failed"] == 0


def test_losses_are_noted(run, notes):
    """On standard error."""
    (notes / "c.txt").write_bytes("Größe ".encode() * 100 + b"\xe4!")
    done = run(notes, "--collection", "c")
    assert "note c.txt: 1 bytes" in done.stderr


def test_more_documents_than_the_limit_end_the_ingest(run, tmp_path, monkeypatch, retrieval):
    """The message has the place, the limit and what to do."""
    monkeypatch.setattr(ingest_command, "MAX_DOCUMENTS", 2)
    path = tmp_path / "d.jsonl"
    path.write_text("".join(f'{{"id": {n}, "text": "Whale {n}."}}\n' for n in range(4)))
    done = run(path, "--collection", "c", "--prune")
    assert done.exit_code == 2
    assert "d.jsonl:3: more than 2 documents, the limit of one ingest." in done.stderr
    assert "Ingest parts of the source" in done.stderr


def test_rebuild_that_would_lose_documents_is_said(run, tmp_path, retrieval):
    """By a note with what to do, and the exit code: the collection is as it was."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("Whales sing.")
        assert run(tmp_path / f"{name}.txt", "--collection", "c").exit_code == 0
    done = run(tmp_path / "a.txt", "--collection", "c", "--rebuild")
    assert done.exit_code == 1
    assert "1 of its documents" in done.stderr
    assert (len(retrieval.documents), retrieval.steps) == (2, ["begin"])


@pytest.mark.timeout(120)
def test_device_as_source_is_refused(run):
    """It is not read: this one has no end."""
    done = run("/dev/zero", "--collection", "c")
    assert done.exit_code == 1
    assert "0 stored" in done.stdout


def test_lines_of_a_file_are_counted_first(run, tmp_path):
    """For the time left."""
    path = tmp_path / "d.jsonl"
    path.write_text('{"id": "a", "text": "Whales."}\n\n{"id": "b", "text": "Seals."}\n')
    assert "2 stored" in run(path, "--collection", "c").stdout


def test_document_is_deleted_by_id(run, notes, retrieval):
    """Instead of an ingest."""
    run(notes, "--collection", "c")
    key = next(iter(retrieval.documents))
    assert run(notes, "--collection", "c", "--delete", key).stdout == "1 deleted\n"
    assert key not in retrieval.documents


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--collection", "no spaces"], "letters, digits"),
        (["--collection", "c", "--field", "n=number"], "name=keyword|integer"),
        (["--collection", "c", "--field", "=keyword"], "name=keyword|integer"),
    ],
)
def test_wrong_options_exit_with_two(run, notes, options, message):
    """The message says what is valid."""
    done = run(notes, *options)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("source", "said"), [("nothing", "no such file or folder"), ("", "The source is empty. Give")]
)
def test_missing_source_exits_with_two(run, tmp_path, monkeypatch, source, said):
    """Before anything is sent; an empty one is not the folder where one is."""
    monkeypatch.chdir(tmp_path)
    done = run(source, "--collection", "c")
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_failure_of_the_service_is_shown(run, notes, retrieval):
    """Without a traceback."""
    retrieval.failure = Fault(ErrorCode.INTERNAL, "The disk is full.")
    done = run(notes, "--collection", "c")
    assert done.exit_code == 2
    assert "internal: The disk is full." in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_stack_the_message_says_how_to_start_one(run, notes, monkeypatch):
    """Or how to reach one elsewhere."""
    monkeypatch.setattr(ingest_command, "find_bus", lambda folder: None)
    done = run(notes, "--collection", "c")
    assert done.exit_code == 2
    assert "searchbus up" in " ".join(done.stderr.split())


def test_words_of_libraries_are_not_shown(run, notes, monkeypatch):
    """Warnings and log lines of parsers say nothing to who ingests."""

    def read(body):
        warnings.warn("internal", stacklevel=1)
        logging.getLogger("some.parser").warning("internal")
        return None, "They sing."

    monkeypatch.setitem(content._BINARY, ".pdf", read)
    (notes / "c.pdf").write_bytes(b"")
    done = run(notes, "--collection", "c")
    assert "3 stored" in done.stdout
    assert "internal" not in done.output

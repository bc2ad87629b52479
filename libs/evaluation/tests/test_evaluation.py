"""Measures over a catalogue of files."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from searchbus_evaluation import CatalogueError, evaluate, read_catalogue
from searchbus_evaluation.command import bench
from searchbus_vectors import load_embedder


async def test_recall_counts_the_tools_that_were_found(catalogue):
    """Two of three queries find theirs; one finds nothing."""
    tools, queries = read_catalogue(catalogue)
    embedder = await load_embedder("hash")
    seen = []
    report = await evaluate(
        tools, queries, embedder, on_progress=lambda stage, done, total: seen.append(stage)
    )
    assert (report.tools, report.queries) == (3, 3)
    assert report.measures["recall@1"] == pytest.approx(2 / 3, abs=1e-3)
    assert report.measures["ndcg@10"] == pytest.approx(2 / 3, abs=1e-3)
    assert report.measures["empty answers"] == 1
    assert seen == ["embedding", "searching", "searching", "searching"]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("tools.jsonl", '{"id": "a", "name": "a"}\n{"id": "a", "name": "b"}', "ids must be unique"),
        ("tools.jsonl", "{", "tools.jsonl:1:"),
        ("tools.jsonl", "", "unknown tool"),
        ("queries.jsonl", '{"text": "x", "relevant": ["no"]}', "queries.jsonl:1: unknown tool"),
        ("queries.jsonl", '{"text": "x", "relevant": []}', "no relevant tool"),
        ("queries.jsonl", "", "0 queries"),
        ("queries.jsonl", None, "cannot be read"),
    ],
)
def test_faults_of_the_files_are_named(catalogue, file, text, message):
    """With the line."""
    if text is None:
        (catalogue / file).unlink()
    else:
        (catalogue / file).write_text(text)
    with pytest.raises(CatalogueError, match=message):
        read_catalogue(catalogue)


app = typer.Typer()
app.command()(bench)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "hash")
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def test_measures_are_printed(run, catalogue):
    """As a table, or as JSON."""
    assert "recall@5" in run(catalogue).stdout
    report = json.loads(run(catalogue, "--json").stdout)
    assert report["tools"] == 3


def test_queries_may_lie_elsewhere(run, catalogue, tmp_path):
    """With `--queries`."""
    moved = tmp_path / "q.jsonl"
    (catalogue / "queries.jsonl").rename(moved)
    done = run(catalogue / "tools.jsonl", "--queries", moved, "--json")
    assert json.loads(done.stdout)["queries"] == 3


def test_bad_catalogue_exits_with_two(run, tmp_path):
    """The message names the file."""
    done = run(tmp_path / "none")
    assert done.exit_code == 2
    assert "cannot be read" in " ".join(done.stderr.split())


def test_missing_model_exits_with_one(run, catalogue, monkeypatch, tmp_path):
    """With the remedy."""
    monkeypatch.setenv("SEARCHBUS_EMBEDDER", "model")
    monkeypatch.setenv("SEARCHBUS_MODEL_DIR", str(tmp_path))
    done = run(catalogue)
    assert done.exit_code == 1
    assert "SEARCHBUS_MODEL_DIR" in " ".join(done.stderr.split())

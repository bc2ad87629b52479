"""`searchbus tools bench` in this process."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from searchbus_evaluation.command import bench

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

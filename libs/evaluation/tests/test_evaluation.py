"""Measures over a catalogue of files."""

from __future__ import annotations

import pytest

from searchbus_evaluation.evaluation import BadCatalogue, evaluate, read_catalogue
from searchbus_toolindex.vector_file import VectorFile
from searchbus_vectors import load_embedder


async def test_recall_counts_the_tools_that_were_found(catalogue):
    """Two of three queries find theirs; one finds nothing."""
    tools, queries = read_catalogue(catalogue)
    embedder = await load_embedder("hash")
    seen = []
    report = await evaluate(
        tools, queries, embedder, vectors=VectorFile(None), model=embedder.model,
        on_progress=lambda stage, done, total: seen.append(stage),
    )  # fmt: skip
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
    with pytest.raises(BadCatalogue, match=message):
        read_catalogue(catalogue)

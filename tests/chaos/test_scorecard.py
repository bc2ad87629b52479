"""The table of measurements, and what counts as a miss."""

from __future__ import annotations

import json

from .__main__ import main
from .rows import LONG, ROWS
from .scorecard import at_least, at_most, left_out, median, table, write


def test_gate_is_met_at_its_limit():
    """From above or from below."""
    assert [at_most("1", "x", value, 2).passed for value in (1, 2, 3)] == [True, True, False]
    assert [at_least("1", "x", value, 2).passed for value in (1, 2, 3)] == [False, True, True]
    assert left_out("1", "x", "no disk").outcome == "left out: no disk"


def test_median_of_the_runs_counts():
    """Each value with its own."""
    runs = [[at_most("1", "a", n, 2, "s"), at_least("1", "b", 9 - n, 2)] for n in (1, 7, 2)]
    assert [(m.name, m.value, m.unit, m.passed) for m in median(runs)] == [
        ("a", 2, "s", True), ("b", 7, "", True),
    ]  # fmt: skip


def test_table_and_file_say_what_was_missed(tmp_path):
    """With value, gate and unit."""
    found = [at_most("3", "losses end", 14.25, 12, "s"), at_least("9", "exact", 4, 4)]
    assert table(found).splitlines()[2:] == [
        "| 3 | losses end | 14.25 s | ≤ 12 s | MISS |",
        "| 9 | exact | 4 | ≥ 4 | pass |",
    ]
    write(tmp_path / "build" / "scorecard.json", found, runs=3, form="short")
    written = json.loads((tmp_path / "build" / "scorecard.json").read_text())
    assert [row["outcome"] for row in written["rows"]] == ["MISS", "pass"]


def test_exit_code_says_whether_a_gate_was_missed(tmp_path, monkeypatch, capsys):
    """A row that raises is a miss, and does not end the others."""
    monkeypatch.setattr("tests.chaos.__main__.OUT", tmp_path / "scorecard.json")

    async def good(folder, *, short):
        return [at_most("1", "good", 0, 0)]

    async def broken(folder, *, short):
        raise RuntimeError("no server")

    monkeypatch.setitem(ROWS, "good", good)
    monkeypatch.setitem(ROWS, "broken", broken)
    assert main(["--rows", "good", "--runs", "3"]) == 0
    assert main(["--rows", "broken,good"]) == 1
    assert "| broken | the row itself failed | 1 | ≤ 0 | MISS |" in capsys.readouterr().out


def test_rows_have_one_name_each():
    """`--rows` finds all."""
    assert not set(ROWS) & set(LONG)

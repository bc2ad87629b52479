"""The table of measurements, and what counts as a miss."""

from __future__ import annotations

import json

from .__main__ import main
from .rows import LONG, ONCE, ROWS
from .scorecard import at_least, at_most, left_out, median, table, write


def test_gate_is_met_at_its_limit():
    """From above or from below."""
    assert [at_most("1", "x", value, 2).passed for value in (1, 2, 3)] == [True, True, False]
    assert [at_least("1", "x", value, 2).passed for value in (1, 2, 3)] == [False, True, True]
    assert left_out("1", "x", "no disk").outcome == "left out: no disk"


def test_median_of_the_runs_counts():
    """Each value with its own."""
    runs = [[at_most("1", "a", n, 2, "s"), at_least("1", "b", 9 - n, 2)] for n in (1, 7, 2)]
    assert [(m.name, m.value, m.unit, m.passed, m.runs) for m in median(runs)] == [
        ("a", 2, "s", True, (1, 7, 2)), ("b", 7, "", True, (8, 2, 7)),
    ]  # fmt: skip


def test_table_and_file_say_what_was_missed(tmp_path):
    """With value, gate and unit."""
    found = [at_most("3", "losses end", 14.25, 12, "s"), at_least("9", "exact", 4, 4)]
    found = median([found, found])
    assert table(found).splitlines()[2:] == [
        "| 3 | losses end | 14.25 s | ≤ 12 s | MISS | 14.25, 14.25 |",
        "| 9 | exact | 4 | ≥ 4 | pass | 4, 4 |",
    ]
    write(tmp_path / "build" / "scorecard.json", found, form="short")
    written = json.loads((tmp_path / "build" / "scorecard.json").read_text())
    assert [(row["outcome"], row["runs"]) for row in written["rows"]] == [
        ("MISS", [14.25, 14.25]), ("pass", [4, 4]),
    ]  # fmt: skip


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
    assert "| broken | the row itself failed | 1 | ≤ 0 | MISS | 1 |" in capsys.readouterr().out


def test_long_form_has_every_row_and_most_of_them_three_times(tmp_path, monkeypatch, capsys):
    """A row of many minutes once."""
    monkeypatch.setattr("tests.chaos.__main__.OUT", tmp_path / "scorecard.json")
    assert LONG.keys() == ROWS.keys()
    assert ROWS.keys() >= ONCE

    async def good(folder, *, short):
        return [at_most(str(short), "good", 0, 0)]

    for name in ("killed", "soak"):
        monkeypatch.setitem(LONG, name, good)
        assert main(["--rows", name, "--long"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "good" in line] == [
        "| False | good | 0 | ≤ 0 | pass | 0, 0, 0 |",
        "| False | good | 0 | ≤ 0 | pass | 0 |",
    ]

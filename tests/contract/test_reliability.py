"""docs/reliability.md names tests that exist, and every row of the scorecard."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.chaos.rows import ROWS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/.]+\.py)::(\w+)", TEXT)))
LINES = [
    line
    for line, following in pairwise([*TEXT.splitlines(), ""])
    if line.startswith("| ") and not line.startswith("| ---") and not following.startswith("| ---")
]
"""The rows of the tables."""


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_test_that_the_page_names_exists(file, name):
    """As a function, or as a class of hypothesis."""
    found = rf"^((async )?def|class) {name}\("
    assert re.search(found, (ROOT / file).read_text(), re.MULTILINE)


def test_each_row_of_a_table_names_a_test():
    """Promises, and remedies that were taken away."""
    assert len(LINES) > len(ROWS)
    assert [line for line in LINES if "::" not in line.rpartition(" | ")[2]] == []


def test_each_row_of_the_scorecard_is_a_promise():
    """By its function; `scrapers` is another form of `scraper_blocked`."""
    for name in set(ROWS) - {"scrapers"}:
        assert f"::{name}`" in TEXT, name


def test_every_path_that_the_page_names_exists():
    """Also outside of the tables."""
    for path in re.findall(r"`((?:tests|libs|services)/[\w/.]+)", TEXT):
        assert (ROOT / path).exists(), path

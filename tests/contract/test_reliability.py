"""docs/reliability.md names tests that exist, and every row of the scorecard."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chaos.rows import ROWS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reliability.md").read_text()
LINES = [
    line
    for line in TEXT.splitlines()
    if line.startswith("| ")
    and "---" not in line
    and not line.startswith(("| promise ", "| remedy "))
]


def test_each_promise_names_a_test_that_exists():
    """By file and name."""
    assert LINES
    for line in LINES:
        named = re.findall(r"`([\w/.]+\.py)::(\w+)`", line.rpartition(" | ")[2])
        assert named, line
        for file, name in named:
            found = rf"^((async )?def|class) {name}\("
            assert re.search(found, (ROOT / file).read_text(), re.MULTILINE), (file, name)


def test_each_row_of_the_scorecard_is_a_promise():
    """By its function; `scrapers` is another form of `scraper_blocked`."""
    for name in set(ROWS) - {"scrapers"}:
        assert f"::{name}`" in TEXT, name


def test_every_path_that_the_page_names_exists():
    """Also outside of the table."""
    for path in re.findall(r"`((?:tests|libs|services)/[\w/.]+)", TEXT):
        assert (ROOT / path).exists(), path

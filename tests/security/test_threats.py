"""docs/security.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
THREATS = (ROOT / "docs" / "security.md").read_text().partition("\n## ")[0]
ROWS = [
    line
    for line in THREATS.splitlines()
    if line.startswith("| ") and "---" not in line and not line.startswith("| threat ")
]


def test_each_threat_names_a_test_that_exists():
    """By file and name."""
    assert ROWS
    for row in ROWS:
        named = re.findall(r"`([\w/.]+\.py)::(\w+)`", row.rpartition(" | ")[2])
        assert named, row
        for file, name in named:
            path = ROOT / file if "/" in file else ROOT / "tests" / "security" / file
            assert path.is_file(), path
            assert re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE), name

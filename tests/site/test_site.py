"""`make site` as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def test_site_builds_without_a_warning():
    """Every page is in it, and it lists the addresses of other hosts."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert done.stderr == ""
    count = re.fullmatch(r"site: (\d+) pages, (\d+) addresses of other hosts\n", done.stdout)
    assert count, done.stdout
    assert int(count[1]) > 50
    for page in ("index", "tutorial", "reference/commands", "guides/keys", "packages/edge"):
        assert (ROOT / "build/site" / f"{page}.html").exists()
    assert len((ROOT / "build/site-links.txt").read_text().splitlines()) == int(count[2])

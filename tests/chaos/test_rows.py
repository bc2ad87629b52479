"""The short form of each row. Times, shares and memory are for `make chaos` on an idle machine."""

from __future__ import annotations

import asyncio

import pytest

from .rows import ROWS

# A unit test of the fleet counts consumers on the server, too; the simulation has an only worker
# that hangs.
SHORT = [name for name in ROWS if name not in ("scrapers", "hung_alone")]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_row(name, tmp_path):
    """Nothing is lost, silent or wrong."""
    found = asyncio.run(ROWS[name](tmp_path / "fleet", short=True))
    assert found
    missed = [m for m in found if not m.unit and not m.passed]
    assert missed == []

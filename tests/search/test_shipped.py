"""How well the tools that searchbus ships are found, with the real model.

Each set was written before what it measures (see sets.py). Of each, 30 queries have a right tool and
20 have none.
"""

from __future__ import annotations

import pytest

from searchbus_toolindex.finder import IndexFinder

from .conftest import shared_tool_embedder
from .measure import results, shipped_quality
from .sets import NEWER, SHIPPED, finder_of, newer, nonsense, shipped, shipped_cases

pytestmark = pytest.mark.slow


@pytest.fixture
async def finder() -> IndexFinder:
    return await finder_of(shipped().entries, await shared_tool_embedder())


@pytest.mark.parametrize("name", SHIPPED)
async def test_right_tool_comes_first_and_foreign_tasks_find_nothing(finder, name):
    """Right first 27 of 30, empty 17 of 20; few other tools are returned."""
    cases = shipped_cases(name)
    assert [bool(case.right) for case in cases] == [True] * 30 + [False] * 20
    measured = shipped_quality(cases, await results(finder, cases, with_toolset=True))
    assert measured["right first"] >= 27
    assert measured["empty"] >= 17
    assert measured["on the first page"] <= 3.5


async def test_newer_tools_are_found_among_all():
    """As at the first measurement: right first 22 of 30, empty 11 of 20."""
    cases = shipped_cases(NEWER)
    finder = await finder_of(newer().entries, await shared_tool_embedder())
    measured = shipped_quality(cases, await results(finder, cases, with_toolset=True))
    assert measured["right first"] >= 22
    assert measured["empty"] >= 11
    assert measured["on the first page"] <= 3.5


async def test_nonsense_finds_nothing(finder):
    """Random letters, small talk and handwork: at least 50 of 60."""
    cases = nonsense()
    found = await results(finder, cases)
    assert len(cases) == 60
    assert sum(not result.names for result in found) >= 50

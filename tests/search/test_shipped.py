"""How well the tools that searchbus ships are found, with the real model.

The sets were written before what they measure: shipped_queries before the ranking, the held-out one
before the tools' examples, the third before the gate. Of each, 30 queries have a right tool and 20
have none.
"""

from __future__ import annotations

import pytest

from searchbus_toolindex.finder import Finder

from .conftest import shared_embedder
from .measure import results, shipped_quality
from .sets import SHIPPED, finder_of, nonsense, shipped, shipped_cases


@pytest.fixture
async def finder() -> Finder:
    return await finder_of(shipped().entries, await shared_embedder())


@pytest.mark.parametrize(
    ("name", "least_right", "least_empty"),
    [
        ("shipped_queries", 25, 17),
        ("shipped_queries_held_out", 27, 17),
        ("shipped_queries_third", 24, 15),
    ],
)
async def test_right_tool_comes_first_and_foreign_tasks_find_nothing(
    finder, name, least_right, least_empty
):
    """Of 30 queries in scope and 20 out of scope; few other tools are returned."""
    assert name in SHIPPED
    cases = shipped_cases(name)
    assert [bool(case.right) for case in cases] == [True] * 30 + [False] * 20
    measured = shipped_quality(cases, await results(finder, cases, with_toolset=True))
    assert measured["right first"] >= least_right
    assert measured["empty"] >= least_empty
    assert measured["returned"] <= 4.0


async def test_nonsense_finds_nothing(finder):
    """Random letters, small talk and handwork: at least 50 of 60."""
    cases = nonsense()
    found = await results(finder, cases)
    assert len(cases) == 60
    assert sum(not names for names in found) >= 50

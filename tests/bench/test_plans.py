"""Fifty tasks as plans take a fifth of the tokens of single calls."""

from __future__ import annotations

from .plans import TASKS, measure_tokens


async def test_plans_save_four_fifths_of_the_tokens():
    """Arguments that a model writes, and results that it reads."""
    measured = await measure_tokens()
    assert measured["tasks"] == TASKS
    assert measured["saved share of tokens"] >= 0.8, measured

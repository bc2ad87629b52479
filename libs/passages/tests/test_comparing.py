"""Comparisons leave the event loop free."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_passages.comparing import Comparisons


async def test_long_comparison_leaves_the_loop_free():
    """Other work runs many times before it ends."""
    text = "a cat sat on mats. " * 150_000
    comparing = asyncio.ensure_future(Comparisons().find(text, "a dog sat on a mat " * 50))
    turns = 0
    while not comparing.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await comparing).match == "nearest"
    assert turns > 20


async def test_many_comparisons_all_have_an_answer():
    """One after the other."""
    comparisons = Comparisons()
    found = await asyncio.gather(*(comparisons.find(f"text {n}", f"text {n}") for n in range(20)))
    assert {place.match for place in found} == {"exact"}
    with pytest.raises(ValueError, match="empty"):
        await comparisons.find("text", " ")

"""Comparisons leave the event loop free."""

from __future__ import annotations

import asyncio
import threading

import pytest

from searchbus_passages import comparing as module
from searchbus_passages.comparing import Comparisons
from searchbus_passages.quotes import find_quote


async def test_long_comparison_leaves_the_loop_free(monkeypatch):
    """Other work runs while it lasts."""
    lasts = threading.Event()

    def find(text, quote):
        assert lasts.wait(60)
        return find_quote(text, quote)

    monkeypatch.setattr(module, "find_quote", find)
    comparing = asyncio.ensure_future(Comparisons().find("a cat sat", "a cat"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not comparing.done()
    lasts.set()
    assert (await comparing).match == "exact"


async def test_many_comparisons_all_have_an_answer():
    """One after the other."""
    comparisons = Comparisons()
    found = await asyncio.gather(*(comparisons.find(f"text {n}", f"text {n}") for n in range(20)))
    assert {place.match for place in found} == {"exact"}
    with pytest.raises(ValueError, match="empty"):
        await comparisons.find("text", " ")

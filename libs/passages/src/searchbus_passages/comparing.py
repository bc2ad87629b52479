"""Compares quotations with texts beside the event loop, a few at a time."""

from __future__ import annotations

import asyncio

from .quotes import Place, find_quote

__all__ = ["Comparisons"]

_AT_ONCE = 2
"""The longest text takes a thread two seconds."""


class Comparisons:
    """`find_quote` for a service; further ones wait for their turn."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def find(self, text: str, quote: str) -> Place:
        """As `find_quote`, which raises ValueError for a quotation that it does not compare."""
        async with self._slots:
            return await asyncio.to_thread(find_quote, text, quote)

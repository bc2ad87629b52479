"""Finds quotations in documents, a few at a time and beside the event loop."""

from __future__ import annotations

import asyncio

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import Document, QuoteDifference, QuoteReply
from searchbus_passages import find_quote

__all__ = ["Quotes"]

_AT_ONCE = 2
"""The largest document takes a thread two seconds."""


class Quotes:
    """Compares quotations with texts."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def find(self, document: Document, quote: str) -> QuoteReply:
        """Where a quotation stands in a whole document.

        Raises:
            Fault: invalid_argument; the quotation is empty or too long.
        """
        try:
            async with self._slots:
                place = await asyncio.to_thread(find_quote, document.text, quote)
        except ValueError as error:
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{error}.") from None
        return QuoteReply(
            collection=document.collection,
            document_id=document.document_id,
            title=document.title,
            match=place.match,
            start=place.start,
            end=place.end,
            text=document.text[place.start : place.end],
            similarity=place.similarity,
            differences=tuple(QuoteDifference(d.quote, d.text) for d in place.differences),
            url=document.url,
            content_hash=document.content_hash,
        )

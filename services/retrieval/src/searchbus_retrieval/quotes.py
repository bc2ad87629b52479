"""Finds quotations in documents."""

from __future__ import annotations

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import Document, QuoteDifference, QuoteReply
from searchbus_passages import Comparisons

__all__ = ["Quotes"]


class Quotes:
    """Compares quotations with documents."""

    def __init__(self) -> None:
        self._comparisons = Comparisons()

    async def find(self, document: Document, quote: str) -> QuoteReply:
        """Where a quotation stands in a whole document.

        Raises:
            Fault: invalid_argument; the quotation is empty or too long.
        """
        try:
            place = await self._comparisons.find(document.text, quote)
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

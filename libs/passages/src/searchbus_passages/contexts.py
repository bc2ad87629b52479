"""What stands above a sentence and says what it is about: heading, table header, list lead.

    spans = list(sentences(text))
    contexts(text, spans)[3]       # (heading, header): spans before the fourth sentence

A row of numbers says nothing without its header, and "28 days" nothing without "Vacation".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .sentences import Span

__all__ = ["contexts"]

_HEADING = re.compile(r"#{1,6}\s")
_ITEM = re.compile(r"(?:[-*\u2022]|\d{1,3}[.)])\s")


def contexts(text: str, spans: Sequence[Span]) -> list[tuple[Span, ...]]:
    """The context of each sentence, in the order of the text; none is a part of the sentence.

    Args:
        spans: all sentences of the text, or of a part of it.
    """
    found: list[tuple[Span, ...]] = []
    heading: Span | None = None
    lead: Span | None = None
    run = before = None
    for span in spans:
        first = text[span.start]
        if _HEADING.match(text, span.start):
            line = text.find("\n", span.start, span.end)
            own = Span(span.start, span.end if line < 0 else line)
            found.append(())
            # What follows the heading's line in its sentence may lead a list.
            heading, lead, run, before = own, None, None, span if line >= 0 else None
            continue
        kind = "row" if first == "|" else "item" if _ITEM.match(text, span.start) else None
        if kind is not None and kind != run:
            lead, run = (span if kind == "row" else before), kind
        elif kind is None and (run != "item" or _is_apart(text, before, span)):
            lead = run = None
        found.append(tuple(s for s in (heading, lead) if s is not None and s != span))
        before = span
    return found


def _is_apart(text: str, before: Span | None, span: Span) -> bool:
    """Whether a blank line parts two sentences."""
    return before is None or text.count("\n", before.end, span.start) > 1

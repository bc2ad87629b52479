"""Parts of texts: `ID#START-END` names characters START to END of a document or page.

    part = Part.of("doc:fomc:17#1200-1900")     # Part(id="doc:fomc:17", start=1200, end=1900)

The end may be left out: `ID#1200-` goes on to the end of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import ErrorCode, Fault

__all__ = ["Part"]

_PART = re.compile(r"(.*)#(\d{1,9})-(\d{1,9})?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """Characters `start` to `end` of the text behind an id; `end` None is the text's end."""

    id: str
    start: int = 0
    end: int | None = None

    @classmethod
    def of(cls, text: str) -> Part:
        """Read an id, with or without a part.

        Raises:
            Fault: invalid_argument; the part is empty.
        """
        match = _PART.fullmatch(text.strip())
        if match is None:
            return cls(text.strip())
        start, end = int(match[2]), int(match[3]) if match[3] else None
        if end is not None and end <= start:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                f"id: the part {start}-{end} is empty. Give an end that is larger than its start.",
            )
        return cls(match[1], start, end)

    def __str__(self) -> str:
        return f"{self.id}#{self.start}-{'' if self.end is None else self.end}"

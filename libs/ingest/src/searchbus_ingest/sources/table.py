"""CSV to text: one line a row, with the name of its column before each value.

name;city            - name: José; city: Málaga
José;Málaga     →
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from searchbus_contracts.ingest import MAX_DOCUMENT_BYTES

from .item import Reason, SkipError

MAX_ROWS = 100_000
_SNIFFED_CHARS = 20_000
_DELIMITERS = ",;\t|"


class TextBudget:
    """How much text a document may still get: a small file may name one thing a million times."""

    def __init__(self) -> None:
        self._left_chars = MAX_DOCUMENT_BYTES

    def take(self, text: str) -> str:
        """The text; raises SkipError where the document has become too large with it."""
        self._left_chars -= len(text)
        if self._left_chars < 0:
            limit = f"{MAX_DOCUMENT_BYTES // 2**20} MiB of text, the limit of a document"
            raise SkipError(Reason.TOO_LARGE, f"more than {limit}; split it")
        return text


def csv_to_text(text: str) -> str:
    """The rows as lines; empty values are left out.

    Raises:
        SkipError: no rows, more than 100,000, a field of more than 128 Ki characters, or too much
            text.
    """
    first, _, rest = text.partition("\n")
    if first.strip().lower().startswith("sep=") and len(first.strip()) == 5:
        delimiter, text = first.strip()[4], rest
    else:
        delimiter = _delimiter(text)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lines: list[str] = []
    budget = TextBudget()
    try:
        names = [" ".join(name.split()) for name in next(rows, [])]
        for row in rows:
            line = row_line(
                (names[position] if position < len(names) else "", position, value)
                for position, value in enumerate(row)
            )
            if not line:
                continue
            if len(lines) == MAX_ROWS:
                problem = f"more than {MAX_ROWS:,} rows, the limit of a table; split the file"
                raise SkipError(Reason.TOO_LARGE, problem)
            lines.append(budget.take(line))
    except csv.Error as error:
        problem = f"cannot be read: line {rows.line_num}: {error}"
        raise SkipError(Reason.UNREADABLE, problem) from None
    if not lines:
        raise SkipError(Reason.EMPTY, "it has no rows below its first line, the column names")
    return "\n".join(lines)


def _delimiter(text: str) -> str:
    """Only the delimiter is taken: of quotes the sniffer is often wrong."""
    try:
        return csv.Sniffer().sniff(text[:_SNIFFED_CHARS], _DELIMITERS).delimiter
    except csv.Error:
        first = text.partition("\n")[0]
        return max(_DELIMITERS, key=first.count)


def row_line(cells: Iterable[tuple[str, int, str]]) -> str:
    """The line of a row of cells (name of the column, perhaps empty; its number from 0; value),
    empty where all values are."""
    found = []
    for name, column, value in cells:
        value = " ".join(value.split())
        if value:
            found.append(f"{name or f'column {column + 1}'}: {value}")
    return f"- {'; '.join(found)}" if found else ""

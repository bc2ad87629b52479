"""Jupyter notebooks: Markdown as it is, code in fences, the text of outputs up to a limit."""

from __future__ import annotations

from typing import Any

from .item import Reason, SkipError
from .json_file import parse_json

__all__ = ["notebook_to_text"]

MAX_CELLS = 10_000
MAX_OUTPUT_CHARS = 2_000
"""Of one cell: a loop may have printed megabytes. Pictures and HTML are left out."""


def notebook_to_text(text: str) -> str:
    """The cells in order, as Markdown.

    Raises:
        SkipError: no notebook, or of more than 10,000 cells.
    """
    book = parse_json(text)
    cells = book.get("cells") if isinstance(book, dict) else None
    if cells is None and isinstance(book, dict):  # until format 3
        sheets = book.get("worksheets")
        first = sheets[0] if isinstance(sheets, list) and sheets else None
        cells = first.get("cells") if isinstance(first, dict) else None
    if not isinstance(cells, list):
        raise SkipError(Reason.UNREADABLE, "cannot be read: it has no cells of a notebook")
    if len(cells) > MAX_CELLS:
        problem = f"more than {MAX_CELLS:,} cells, the limit of a notebook; split it"
        raise SkipError(Reason.TOO_LARGE, problem)
    return "\n\n".join(part for cell in cells if isinstance(cell, dict) for part in _parts(cell))


def _parts(cell: dict[str, Any]) -> list[str]:
    source = _text(cell.get("source", cell.get("input"))).strip()
    if cell.get("cell_type") != "code":
        return [source] if source else []
    found = [_fenced(source)] if source else []
    outputs = cell.get("outputs")
    texts = (_output(output) for output in outputs) if isinstance(outputs, list) else ()
    printed = ""
    for text in texts:
        if len(printed) <= MAX_OUTPUT_CHARS:
            printed += text[: MAX_OUTPUT_CHARS + 1]
    if len(printed) > MAX_OUTPUT_CHARS:
        printed = f"{printed[:MAX_OUTPUT_CHARS]}…"
    return [*found, _fenced(printed.strip())] if printed.strip() else found


def _output(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    plain = data.get("text/plain") if isinstance(data, dict) else None
    return _text(output.get("text")) or _text(plain)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _fenced(text: str) -> str:
    fence = "~~~" if "```" in text else "```"
    return f"{fence}\n{text}\n{fence}"

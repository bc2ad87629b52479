"""Chunks: the short parts of a page that speak to a query.

    chunks("songs of whales", text, most=3)     # at most 3, of at most 500 characters each

A chunk has the most words of the query; of equal ones the first of the page.
"""

from __future__ import annotations

import re

from ...composites.passages import cut, distinct, marked, terms
from .web_tools import Page

__all__ = ["MAX_CHUNK_CHARS", "chunks", "chunks_of_page"]

MAX_CHUNK_CHARS = 500
_BETWEEN = " [...] "
_RANKED = 8
"""Times as many are compared as are asked for: comparing takes the square of their number."""
_MARKED = re.compile(r"<(untrusted_text_\w+)>\n(.*)\n</\1>", re.DOTALL)


def chunks(query: str, text: str, *, most: int) -> list[str]:
    """The chunks of a text, best first; its first one where none has a word of the query."""
    wanted = set(terms(query))
    parts = [part.strip()[:MAX_CHUNK_CHARS] for part in cut(text, MAX_CHUNK_CHARS)]
    hits = {part: len(wanted & set(terms(part))) for part in parts}
    ranked = sorted((part for part in hits if hits[part]), key=lambda part: -hits[part])
    return distinct(ranked[: most * _RANKED])[:most] or parts[:1]


def chunks_of_page(query: str, page: Page, *, most: int) -> str:
    """The chunks of a page's content between its marks, joined by ` [...] `; empty without one."""
    found = _MARKED.match(page.content)
    mark, text = found.groups() if found else (None, page.content)
    kept = chunks(query, text, most=most)
    return marked([_BETWEEN.join(kept)], mark)[0] if kept else ""

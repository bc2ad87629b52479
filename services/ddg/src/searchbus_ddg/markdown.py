"""The Markdown of the specification; text of pages cannot change its structure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from searchbus_contracts.web import WebResult
from searchbus_upstream.text import plain

__all__ = ["escape", "heading", "search_text"]

_SPECIAL = re.compile(r"([\\`*\[<]|(?<![^\W_])_|_(?![^\W_]))")
_BLOCK_START = re.compile(r"^(\s*)([#>+\-=~|]|\d+(?=[.)]\s))")


def escape(text: str, *, inline: bool = False) -> str:
    """One line without live Markdown: no link, image, tag, emphasis or block.

    Args:
        inline: other text precedes it in its line, so it cannot start a block.
    """
    line = _SPECIAL.sub(r"\\\1", plain(text))
    if inline:
        return line
    return _BLOCK_START.sub(lambda m: f"{m[1]}\\{m[2]}" if not m[2].isdigit() else m[0], line)


def heading(kind: str, query: str) -> str:
    """`## Web Search Results for "…"`, on one line."""
    return f'## {kind} for "{plain(query)}"'


def search_text(query: str, results: Sequence[WebResult], notes: Iterable[str] = ()) -> str:
    """The text of web_search."""
    lines = [heading("Web Search Results", query), ""]
    if not results:
        lines += ["No results found.", ""]
    for number, result in enumerate(results, 1):
        lines += [
            f"### {number}. {escape(result.title, inline=True)}",
            f"**URL:** {_url(result.url)}",
        ]
        if result.snippet:
            lines.append(escape(result.snippet))
        lines += ["", "---", ""]
    for note in notes:
        lines += [f"_Note: {plain(note)}_", ""]
    count = f" ({len(results)} results)" if results else ""
    lines.append(f"_Source: DuckDuckGo{count}_")
    return "\n".join(lines)


def _url(url: str) -> str:
    """Percent-encode the characters that a URL may not contain."""
    return re.sub(r"[<>\"\s`{}|\\^]", lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), url)

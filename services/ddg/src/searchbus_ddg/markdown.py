"""The Markdown of both tools, as the specification shows it; no page can change its structure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from searchbus_contracts.web import WebResult
from searchbus_upstream.text import plain

from .instant import InstantAnswer, Topic

_INSTANT_SOURCE = "_Source: DuckDuckGo Instant Answer API_"
_MAX_TOPICS = 40
_SPECIAL = re.compile(r"([\\`*\[<]|(?<![^\W_])_|_(?![^\W_]))")
_BLOCK_START = re.compile(r"^(\s*)([#>+\-=~|]|\d+(?=[.)]\s))")


def escape(text: str, *, inline: bool = False) -> str:
    """One line without live Markdown: no link, image, tag, emphasis or block, which it cannot start
    `inline`."""
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


def instant_text(query: str, answer: InstantAnswer, notes: Iterable[str] = ()) -> str:
    """The text of instant_answer."""
    blocks = [heading("Instant Answer", query)]
    if answer.empty:
        blocks.append("No instant answer available for this query.")
    if answer.answer:
        blocks.append(f"### Answer\n{_lines(answer.answer)}")
    if answer.abstract:
        blocks.append(f"### Abstract\n{_lines(answer.abstract)}")
        blocks += _source(answer.abstract_source, answer.abstract_url)
    if answer.definition:
        blocks.append(f"### Definition\n{_lines(answer.definition)}")
        blocks += _source(answer.definition_source, answer.definition_url)
    if answer.facts:
        facts = "\n".join(
            f"- **{escape(name, inline=True)}:** {escape(value, inline=True)}"
            for name, value in answer.facts
        )
        blocks.append(f"### Facts\n{facts}")
    if answer.results:
        blocks.append(f"### Results\n{_list(answer.results, with_url=True)}")
    if answer.redirect:
        blocks.append(f"### Redirect\n**URL:** {answer.redirect}")
    blocks += _related(answer)
    blocks += [f"_Note: {escape(note, inline=True)}_" for note in notes]
    blocks.append(_INSTANT_SOURCE)
    return "\n\n".join(blocks)


def _related(answer: InstantAnswer) -> list[str]:
    if not answer.groups:
        return []
    blocks = ["### Related Topics"]
    if answer.disambiguation:
        name = f'"{escape(answer.heading)}"' if answer.heading else "The query"
        blocks[0] += f"\n{name} may refer to:"
    left = _MAX_TOPICS
    for group in answer.groups:
        if left <= 0:
            break
        shown = _list(group.topics[:left], with_url=answer.disambiguation)
        left -= len(group.topics)
        if group.name:
            blocks.append(f"#### {escape(group.name)}\n{shown}")
        else:
            blocks[-1] += f"\n{shown}"
    return blocks


def _list(topics: Iterable[Topic], *, with_url: bool) -> str:
    lines = []
    for topic in topics:
        line = f"- **{escape(topic.title, inline=True)}**"
        if topic.about:
            line += f" - {escape(topic.about, inline=True)}"
        if with_url and topic.url:
            line += f" ({topic.url})"
        lines.append(line)
    return "\n".join(lines)


def _source(name: str, url: str | None) -> list[str]:
    lines = [f"**Source:** {escape(name, inline=True)}"] if name else []
    if url:
        lines.append(f"**URL:** {url}")
    return ["\n".join(lines)] if lines else []


def _lines(text: str) -> str:
    return "\n".join(escape(line) for line in text.split("\n"))

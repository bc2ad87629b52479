"""The Markdown of instant_answer, as the specification shows it."""

from __future__ import annotations

from collections.abc import Iterable

from .instant import InstantAnswer, Topic
from .markdown import escape, heading

__all__ = ["instant_text"]

_SOURCE = "_Source: DuckDuckGo Instant Answer API_"
_MAX_TOPICS = 40


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
    blocks.append(_SOURCE)
    return "\n\n".join(blocks)


def _related(answer: InstantAnswer) -> list[str]:
    if not answer.groups:
        return []
    blocks = []
    if answer.disambiguation:
        name = f'"{escape(answer.heading)}"' if answer.heading else "The query"
        blocks.append(f"### Disambiguation\n{name} may refer to:")
    else:
        blocks.append("### Related Topics")
    left = _MAX_TOPICS
    for group in answer.groups:
        if left <= 0:
            break
        shown = _list(group.topics[:left], with_url=answer.disambiguation)
        left -= len(group.topics)
        if group.name:
            blocks.append(f"#### {escape(group.name)}\n{shown}")
        elif answer.disambiguation:
            blocks.append(shown)
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

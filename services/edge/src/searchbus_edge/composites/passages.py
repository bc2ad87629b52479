"""Picks the passages of a source that answer a question."""

from __future__ import annotations

import re

__all__ = ["pick_passages"]

MAX_PARAGRAPHS = 2
MAX_PASSAGE_CHARS = 1200
_MIN_PARAGRAPH_WORDS = 8
_WORD = re.compile(r"\w{3,}")
_MARKS_OF_UNTRUSTED_TEXT = re.compile(r"</?(untrusted_text_\w+)>")


def pick_passages(question: str, text: str, snippet: str) -> list[str]:
    """The snippet that search found, and the paragraphs sharing most words with the question.

    A text between marks of untrusted text gives passages between the same marks.

    Args:
        text: the full text, empty where it could not be read.
    """
    wanted = {word.lower() for word in _WORD.findall(question)}
    scored: list[tuple[float, int, str]] = []
    for position, paragraph in enumerate(
        re.split(r"\n\s*\n", _MARKS_OF_UNTRUSTED_TEXT.sub("", text))
    ):
        words = {word.lower() for word in _WORD.findall(paragraph)}
        if len(words) >= _MIN_PARAGRAPH_WORDS:
            share = len(words & wanted) / (len(wanted) or 1)
            scored.append((-share, position, paragraph.strip()))
    best = [paragraph for score, _, paragraph in sorted(scored)[:MAX_PARAGRAPHS] if score < 0]
    chosen = [snippet.strip(), *best] if snippet.strip() else best
    unique: list[str] = []
    for passage in chosen:
        if not any(passage in other or other in passage for other in unique):
            unique.append(passage[:MAX_PASSAGE_CHARS])
    mark = _MARKS_OF_UNTRUSTED_TEXT.search(text)
    picked = unique[: MAX_PARAGRAPHS + 1]
    return picked if mark is None else [f"<{mark[1]}>\n{p}\n</{mark[1]}>" for p in picked]

"""Titles that programs wrote into a file, and that name nothing."""

from __future__ import annotations

import re

__all__ = ["usable_title"]

_PROGRAM = re.compile(
    r"^(?:microsoft (?:office )?(?:word|excel|powerpoint)|powerpoint|word|adobe \w+) - ", re.I
)
_PLACEHOLDER = re.compile(
    r"(?:\(?(?:untitled|anonymous|unknown|unnamed|unbenannt|sans titre|sin t[ií]tulo|title|titel"
    r"|no title|none|null|index|home|document|dokument|documento|slide|folie|page|new page|scan"
    r"|(?:microsoft )?powerpoint[ -]presentation|(?:microsoft )?word document)"
    r"(?: document| page)?\)?[ _-]*\d*)",
    re.I,
)
_FILE_NAME = re.compile(
    r"\S*\.(?:docx?|xlsx?|pptx?|pdf|html?|txt|rtf|odt|indd|qxd|dvi|tex|ps|wpd)", re.I
)


def usable_title(title: str | None) -> str | None:
    """The title on one line, or `None` where it names a program, a file or nothing at all."""
    text = " ".join((title or "").replace("\0", "").split())
    if not any(character.isalpha() for character in text) or "\ufffd" in text:
        return None
    if _PROGRAM.match(text) or _PLACEHOLDER.fullmatch(text) or _FILE_NAME.fullmatch(text):
        return None
    return text

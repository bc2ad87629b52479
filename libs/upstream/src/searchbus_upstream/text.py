"""Removes characters that people do not see from text that others wrote."""

from __future__ import annotations

import unicodedata

__all__ = ["is_visible", "plain"]


def is_visible(character: str) -> bool:
    """Whether a character is neither a control, format (bidirectional, zero-width) nor unassigned.

    The two joiners are kept: some scripts and emoji need them.
    """
    return character in "\u200c\u200d" or not unicodedata.category(character).startswith("C")


def plain(text: str) -> str:
    """One line of visible characters; every run of white space becomes one space."""
    kept = (" " if c.isspace() else c for c in text if c.isspace() or is_visible(c))
    return " ".join("".join(kept).split())

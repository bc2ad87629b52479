"""Whether what was decoded is a text: bytes of a picture or a program also decode to something."""

from __future__ import annotations

import re

__all__ = ["looks_binary"]

_SAMPLE_CHARS = 1_000_000
_MAX_SHARE = 0.02
# Not among them: white space, backspace, escape (colours of terminals), and the end mark of DOS.
_NO_TEXT = re.compile("[\x00-\x07\x0e-\x19\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd]")


def looks_binary(text: str) -> bool:
    """Whether more than 2 % are control characters or stand for bytes that are no character."""
    sample = text[:_SAMPLE_CHARS]
    return len(_NO_TEXT.findall(sample)) > _MAX_SHARE * len(sample)

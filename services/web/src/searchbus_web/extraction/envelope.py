"""Text of strangers, made safe to show to a model: fenced, labelled, without what is invisible."""

from __future__ import annotations

import re
import secrets
import unicodedata

__all__ = ["MAX_CHARS", "START_FRAGMENT", "clean_text", "envelope", "start_of"]

MAX_CHARS = 50_000
START_FRAGMENT = "searchbus-start="
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_HTML_IMAGE = re.compile(r"<(img|iframe|object|embed|video|audio|script|link)\b[^>]*>", re.I)
_REFERENCE_IMAGE = re.compile(r"!\[([^\]]*)\]\[[^\]]*\]")
_FENCE = re.compile(r"</?\s*untrusted_text_\w*\s*>", re.I)


def clean_text(text: str) -> str:
    """Without control, invisible and direction characters, live images, forged marks."""
    kept = "".join(c for c in text.replace("\r\n", "\n") if c in "\n\t" or _shown(c))
    kept = _IMAGE.sub(lambda m: f"[image: {m[1]}]" if m[1] else "", kept)
    kept = _REFERENCE_IMAGE.sub(lambda m: f"[image: {m[1]}]", kept)
    kept = _HTML_IMAGE.sub("", kept)
    kept = _FENCE.sub("", kept)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _shown(character: str) -> bool:
    if character in "\u200c\u200d":
        return True  # joiners matter to some scripts and to emoji
    # Tags and variation selectors beyond emoji's hide text from people (U+E0000 and following).
    return not unicodedata.category(character).startswith("C") and not (
        0xE0000 <= ord(character) <= 0xE01EF
    )


def start_of(url: str) -> tuple[str, int]:
    """A URL without our fragment, and where in its text to begin."""
    base, sign, fragment = url.partition("#")
    if sign and fragment.startswith(START_FRAGMENT):
        number = fragment.removeprefix(START_FRAGMENT)
        if number.isdigit() and len(number) < 10:
            return base, int(number)
    return url, 0


def envelope(text: str, url: str, start: int, *, max_chars: int = MAX_CHARS) -> str:
    """The part of a text from `start` on, between marks that it cannot forge.

    A longer text is cut at the end of a paragraph where one is near, with a notice of how to get
    the rest.
    """
    part = text[start:]
    notice = ""
    if len(part) > max_chars:
        end = part.rfind("\n\n", int(max_chars * 0.8), max_chars)
        part = part[: end if end > 0 else max_chars]
        following = start + len(part)
        notice = (
            f"\n[Characters {start} to {following} of {len(text)}. "
            f"For the rest extract {url}#{START_FRAGMENT}{following}]"
        )
    mark = secrets.token_hex(4)
    return f"<untrusted_text_{mark}>\n{part.strip()}\n</untrusted_text_{mark}>{notice}"

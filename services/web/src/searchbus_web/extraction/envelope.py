"""Untrusted text, prepared for a model: between marks, without invisible characters or images."""

from __future__ import annotations

import re
import secrets

from searchbus_upstream.text import is_visible

__all__ = ["MAX_CHARS", "START_FRAGMENT", "clean_text", "envelope", "start_of"]

MAX_CHARS = 50_000
START_FRAGMENT = "searchbus-start="
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)")
_HTML_IMAGE = re.compile(r"<(img|iframe|object|embed|video|audio|script|link)\b[^>]*>", re.I)
_REFERENCE_IMAGE = re.compile(r"!\[([^\]]*)\]\[[^\]]*\]")
_FENCE = re.compile(r"</?\s*untrusted_text_\w*\s*>", re.I)


def clean_text(text: str) -> str:
    """Remove control, invisible and direction characters, live images and forged marks."""
    kept = "".join(c for c in text.replace("\r\n", "\n") if c in "\n\t" or _is_kept(c))
    kept = _IMAGE.sub(lambda m: f"[image: {m[1]}]" if m[1] else "", kept)
    kept = _REFERENCE_IMAGE.sub(lambda m: f"[image: {m[1]}]", kept)
    kept = _HTML_IMAGE.sub("", kept)
    kept = _FENCE.sub("", kept)
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _is_kept(character: str) -> bool:
    # Tags and supplementary variation selectors (U+E0000 to U+E01EF) hide text from people.
    return is_visible(character) and not 0xE0000 <= ord(character) <= 0xE01EF


def start_of(url: str) -> tuple[str, int]:
    """Split a URL into the page's URL and the offset into its text that our fragment names."""
    base, sign, fragment = url.partition("#")
    if sign and fragment.startswith(START_FRAGMENT):
        number = fragment.removeprefix(START_FRAGMENT)
        if number.isdigit() and len(number) < 10:
            return base, int(number)
    return url, 0


def envelope(text: str, url: str, start: int, *, max_chars: int = MAX_CHARS) -> str:
    """Return the part of a text from `start` on, between marks that the text cannot contain.

    A longer text is cut, at the end of a paragraph where one is near; a notice says how to get the
    rest.

    Args:
        start, max_chars: in characters of the whole text.
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

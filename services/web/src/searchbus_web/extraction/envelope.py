"""Untrusted text for a model: without invisible characters or live markup, between marks."""

from __future__ import annotations

import re
import secrets

from searchbus_upstream.text import inert, visible

__all__ = ["MAX_CHARS", "START_FRAGMENT", "clean_text", "envelope", "start_of"]

MAX_CHARS = 50_000
START_FRAGMENT = "searchbus-start="
_EMPTY_LINES = re.compile(r"\n{3,}")


def clean_text(text: str) -> str:
    """Remove invisible characters and break up live markup and forged marks.

    Takes time in proportion to the text: run it where the text is limited, off the loop.
    """
    return _EMPTY_LINES.sub("\n\n", inert(visible(text))).strip()


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

"""Untrusted text for a model: without invisible characters or live markup, between marks."""

from __future__ import annotations

import re
import secrets

from searchbus_contracts.visible import visible
from searchbus_upstream.text import inert

__all__ = [
    "MAX_CHARS", "START_FRAGMENT", "clean_text", "envelope", "part_of", "rest_of", "start_of",
]  # fmt: skip

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


def part_of(text: str, start: int, *, max_chars: int = MAX_CHARS) -> tuple[int, int]:
    """The part of a text from `start` on, without the white space around it, as offsets.

    A longer part is cut, at the end of a paragraph where one is near.
    """
    end = len(text)
    if end - start > max_chars:
        paragraph = text.rfind("\n\n", start + int(max_chars * 0.8), start + max_chars)
        end = paragraph if paragraph > 0 else start + max_chars
    part = text[start:end]
    return end - len(part.lstrip()), start + len(part.rstrip())


def envelope(text: str, url: str, start: int, end: int) -> str:
    """`text[start:end]` between marks that the text cannot contain.

    Where the text goes on, a notice says how to get the rest.
    """
    notice = ""
    if text[end:].strip():
        notice = (
            f"\n[Characters {start} to {end} of {len(text)}. "
            f"For the rest extract {rest_of(url, end)}]"
        )
    mark = secrets.token_hex(4)
    return f"<untrusted_text_{mark}>\n{text[start:end]}\n</untrusted_text_{mark}>{notice}"


def rest_of(url: str, end: int) -> str:
    """The URL that stands for a page's text from `end` on."""
    return f"{url}#{START_FRAGMENT}{end}"

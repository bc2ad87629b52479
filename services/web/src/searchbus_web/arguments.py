"""Arguments of the tools, checked and normalised before any provider or page is requested."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import UnsetType

from searchbus_contracts import ErrorCode, Fault

from .providers.base import TIME_WORDS, TimeRange

__all__ = ["MAX_QUERY_CHARS", "MAX_URLS", "TIME_RANGES", "read_time_range", "read_urls"]

MAX_QUERY_CHARS = 1000
MAX_URLS = 5
_MAX_URL_CHARS = 4096
_RANGES: dict[str, TimeRange] = {letter: letter for letter in TIME_WORDS} | {
    word: letter for letter, word in TIME_WORDS.items()
}
TIME_RANGES = tuple(_RANGES)
"""What `timeRange` may be: the letters of the specification, and their words."""


def read_time_range(given: str | UnsetType) -> TimeRange:
    """The time range of `d`, `day`, `w`, …; an empty string where none is given.

    Raises:
        Fault: invalid_argument.
    """
    if isinstance(given, UnsetType) or not given.strip():
        return ""
    found = _RANGES.get(given.strip().lower())
    if found is None:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            "timeRange is not known. Give d, w, m or y (day, week, month or year).",
        )
    return found


def read_urls(given: Sequence[str]) -> list[str]:
    """The URLs; a string that holds a JSON array of URLs stands for its elements.

    Raises:
        Fault: invalid_argument.
    """
    urls = [url for item in given for url in _array_in_string(item.strip())]
    if not urls or not all(urls):
        raise Fault(ErrorCode.INVALID_ARGUMENT, "urls is empty. Give 1 to 5 http or https URLs.")
    if len(urls) > MAX_URLS:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"urls has {len(urls)} URLs. Give at most {MAX_URLS}.",
        )
    if any(len(url) > _MAX_URL_CHARS for url in urls):
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"urls has a URL of more than {_MAX_URL_CHARS} characters. Give a shorter one.",
        )
    return urls


def _array_in_string(text: str) -> list[str]:
    if text.startswith("["):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return [text]
        if isinstance(inner, list) and all(isinstance(url, str) for url in inner):
            return [url.strip() for url in inner]
    return [text]

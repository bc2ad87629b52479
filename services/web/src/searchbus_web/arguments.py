"""Arguments of the tools, checked and normalised before any provider or page is requested."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from msgspec import UnsetType

from searchbus_contracts import ErrorCode, Fault

from .providers.base import TimeRange

__all__ = ["MAX_QUERY_CHARS", "MAX_URLS", "read_domains", "read_time_range", "read_urls"]

MAX_QUERY_CHARS = 1000
MAX_URLS = 5
_MAX_URL_CHARS = 4096
_MAX_DOMAINS = 100
_RANGES: dict[str, TimeRange] = {
    "d": "d", "day": "d", "w": "w", "week": "w", "m": "m", "month": "m", "y": "y", "year": "y",
}  # fmt: skip
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")


def read_time_range(given: str | UnsetType) -> TimeRange:
    """The time range of `d`, `day`, `w`, …; an empty string where none is given.

    Raises:
        Fault: invalid_argument.
    """
    if isinstance(given, UnsetType) or not given.strip():
        return ""
    found = _RANGES.get(given.strip().lower())
    if found is None:
        raise Fault(ErrorCode.INVALID_ARGUMENT, "timeRange must be d, w, m or y.")
    return found


def read_domains(field: str, given: list[str] | UnsetType) -> tuple[str, ...]:
    """Lower-case hosts; `https://Example.org/x` and `*.example.org` become `example.org`.

    Args:
        field: the argument's name, for the error message.

    Raises:
        Fault: invalid_argument.
    """
    if isinstance(given, UnsetType):
        return ()
    if len(given) > _MAX_DOMAINS:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"{field} has {len(given)} domains; at most {_MAX_DOMAINS} are allowed.",
        )
    return tuple(dict.fromkeys(_domain(field, item) for item in given))


def _domain(field: str, given: str) -> str:
    host = re.sub(r"^[a-z]+://", "", given.strip().lower()).split("/")[0].split(":")[0]
    host = host.removeprefix("*.").removeprefix("www.").rstrip(".")
    try:
        host = host.encode("idna").decode()
    except UnicodeError:
        host = ""
    if not _DOMAIN.fullmatch(host):
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"{field}: {given[:80]!r} is not a domain. Write it like example.org.",
        )
    return host


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
            f"urls has {len(urls)} URLs; at most {MAX_URLS} are allowed.",
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

"""Domain filters of a search: a host with its subdomains, or a part of it below a path.

A filter is text like `example.org` or `example.org/path`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urljoin, urlsplit

from msgspec import UnsetType

from searchbus_contracts import ErrorCode, Fault

MAX_DOMAINS = 100
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")
_PATH = re.compile(r"(?:/[\w.~!$&'()+,;=:@%-]+)*")


def read_domains(field: str, given: list[str] | UnsetType) -> tuple[str, ...]:
    """Filters; `https://www.Example.org/` and `*.example.org` become `example.org`.

    What cannot be filtered by (a port, a query, a wildcard in the path) is refused: without it the
    filter would admit more than the caller asked for.

    Args:
        field: the argument's name, for the error message.

    Raises:
        Fault: invalid_argument.
    """
    if isinstance(given, UnsetType):
        return ()
    return tuple(dict.fromkeys(_read(field, item) for item in given))


def _read(field: str, given: str) -> str:
    host, slash, path = re.sub(r"^https?://", "", given.strip(), flags=re.I).partition("/")
    host = host.lower().removeprefix("*.").removeprefix("www.").rstrip(".")
    try:
        host = host.encode("idna").decode()
    except UnicodeError:
        host = ""
    path = f"{slash}{path}".rstrip("/")
    has_dots = not {".", ".."}.isdisjoint(path.split("/"))
    if not _HOST.fullmatch(host) or not _PATH.fullmatch(path) or has_dots:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            f"{field}: {given[:80]!r} is not a domain. Write it like example.org or "
            "example.org/path, without port and query.",
        )
    return f"{host}{path}"


def within(url: str, domain: str) -> bool:
    """Whether a URL belongs to a domain, and lies below its path where it has one.

    Paths are compared by whole segments and without case, as most sites do.
    """
    wanted_host, _, wanted_path = domain.partition("/")
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if host != wanted_host and not host.endswith(f".{wanted_host}"):
        return False
    # Joining resolves `..`, by which a path could leave the part that it names.
    path = urlsplit(urljoin(url, parts.path or "/")).path
    wanted = _segments(wanted_path)
    return _segments(path)[: len(wanted)] == wanted


def _segments(path: str) -> list[str]:
    return [unquote(segment).casefold() for segment in path.strip("/").split("/") if segment]

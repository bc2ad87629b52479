"""Which sources are synced: an address on the command line, or the rows of a file. The forms of
both are in docs/guides/sync.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from searchbus_contracts import ErrorCode, Fault, is_token
from searchbus_runtime.files import expanded

MAX_SOURCES = 1000
SLOT_S = 900.0
"""A sync that takes longer lets another one begin: that of a large site mostly waits."""
LEAST_EVERY_S, MOST_EVERY_S = 10.0, 30 * 86400.0
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_KINDS = ("folder", "git", "feed", "sitemap")


class SourceRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A source of the file; `every` is a time such as 30s, 15m, 6h, 1d."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    source: Annotated[str, Meta(min_length=1, max_length=4096)]
    collection: str
    every: str = "1h"
    include: tuple[str, ...] = ()


class _SourcesFile(Struct, forbid_unknown_fields=True):
    source: Annotated[tuple[SourceRow, ...], Meta(max_length=MAX_SOURCES)] = ()


def read_rows(path: Path) -> tuple[SourceRow, ...]:
    """The sources of a file; raises Fault where one is wrong, and names it."""
    try:
        rows = msgspec.toml.decode(path.read_bytes(), type=_SourcesFile).source
    except OSError as error:
        raise invalid(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise invalid(f"{path}: {error}") from None
    seen = set()
    for row in rows:
        try:
            require_valid(row, path.absolute().parent)
        except Fault as fault:
            raise invalid(f"{path}: {row.name}: {fault.failure.message}") from None
        if (row.name, row.collection) in seen:
            raise invalid(f"{path}: {row.name} is there twice. Give each source its own name.")
        seen.add((row.name, row.collection))
    return rows


def require_valid(row: SourceRow, base: Path) -> None:
    """Raises Fault where a field is wrong; `base` as of `address_of`."""
    if not is_token(row.collection):
        raise invalid("collection: use 1 to 64 letters, digits, _ and -.")
    seconds_of(row.every)
    kind, _ = address_of(row.source, base)
    if row.include and kind not in ("folder", "git"):
        raise invalid("include: only files are chosen by it. Omit it for a feed or a sitemap.")


def seconds_of(every: str) -> float:
    """Seconds of a time such as 15m; raises Fault."""
    match = re.fullmatch(r"(\d{1,7})([smhd])", every)
    found = int(match[1]) * _UNITS_S[match[2]] if match else 0
    if not LEAST_EVERY_S <= found <= MOST_EVERY_S:
        raise invalid(f"every={every[:20]}: write 30s, 15m, 6h or 1d; from 10 s to 30 days.")
    return float(found)


def address_of(text: str, base: Path) -> tuple[str, str]:
    """Kind (folder, git, feed, sitemap, or empty: feed or sitemap) and the absolute address, a
    relative path from `base`. Raises Fault for any other kind."""
    kind, plus, rest = text.partition("+")
    if not (plus and kind in _KINDS):
        kind, rest = "", text
    if rest.startswith(("http://", "https://")):
        if kind == "folder" or (kind == "git" and rest.startswith("http://")):
            raise invalid(f"{text[:200]}: use https:// for git, and a path for a folder.")
        try:
            parts = urlsplit(rest)
            usable = bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise invalid(f"source: {text[:200]} is not an address. Correct its host or port.")
        if "@" in parts.netloc:  # it would stand in every document
            raise invalid("source: use an address without user and password.")
        return kind, rest
    if "://" in rest or kind in ("feed", "sitemap"):
        raise invalid(f"{text[:200]}: use a path, git+https://, feed+https:// or sitemap+https://.")
    path, _, branch = rest.partition("#") if kind == "git" else (rest, "", "")
    try:
        absolute = (base / expanded(path)).resolve()
    except FileNotFoundError as error:
        raise invalid(f"{text[:200]}: {error.strerror}; use the whole path.") from None
    if not kind:
        kind = "git" if (absolute / ".git").exists() else "folder"
    return kind, f"{absolute}#{branch}" if branch else str(absolute)


def invalid(message: str) -> Fault:
    """The failure for a wrong argument or row."""
    return Fault(ErrorCode.INVALID_ARGUMENT, message)

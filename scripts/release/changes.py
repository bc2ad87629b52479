"""Versions, and the sections of CHANGELOG.md (Keep a Changelog 1.1.0)."""

from __future__ import annotations

import re

UNRELEASED = "## [Unreleased]"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")


class RefusedError(Exception):
    """A release that is not made, with the reason."""


def key_of(version: str) -> tuple[int, int, int, str, int]:
    """What versions are ordered by; a pre-release stands before its release.

    Raises:
        RefusedError: this is not a version.
    """
    found = _VERSION.fullmatch(version)
    if found is None or found[0] != re.sub(r"\b0+(?=\d)", "", found[0]):
        raise RefusedError(f"VERSION={version}: write it as 1.2.3, or as 1.2.3rc1.")
    major, minor, patch, kind, number = found.groups()
    return int(major), int(minor), int(patch), kind or "z", int(number or 0)


def newest(tags: list[str]) -> str | None:
    """The newest version of tags such as v1.2.3; other tags do not count."""
    versions = [tag[1:] for tag in tags if tag[:1] == "v" and _VERSION.fullmatch(tag[1:])]
    return max(versions, key=key_of, default=None)


def section(text: str) -> str:
    """What stands below Unreleased.

    Raises:
        RefusedError: there is no such heading, or nothing below it.
    """
    _, heading, rest = text.partition(f"{UNRELEASED}\n")
    entries = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not heading or not re.search(r"^- ", entries, re.MULTILINE):
        raise RefusedError(f"CHANGELOG.md has no entry below {UNRELEASED}: write what has changed.")
    return entries


def released(text: str, version: str, day: str) -> str:
    """The changelog with the entries of Unreleased as those of a version.

    Args:
        day: as 2026-01-31.

    Raises:
        RefusedError: nothing is unreleased, or the version has a section.
    """
    section(text)
    if f"## [{version}]" in text:
        raise RefusedError(f"CHANGELOG.md has a section [{version}] already.")
    return text.replace(f"{UNRELEASED}\n", f"{UNRELEASED}\n\n## [{version}] - {day}\n", 1)

"""Finds the files of a folder and reads them: regular ones of a known type, up to a size."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import BinaryIO

from .item import Item, Reason, SkipError


@contextmanager
def open_regular(
    path: Path, *, max_bytes: int | None, root: Path | None = None
) -> Iterator[BinaryIO]:
    """Open a regular file.

    Args:
        max_bytes: `None` for a reader that takes one line at a time.
        root: resolved; the file must be below it, wherever a link has led to since it was found.

    Raises:
        SkipError: not a regular file, too large, gone, outside, or changed until the end of the
            block.
        OSError: it cannot be read.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        raise SkipError(Reason.CHANGED, "cannot be read: there is no such file any more") from None
    with file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise SkipError(Reason.NOT_REGULAR, f"{kind_of(before.st_mode)}, not a regular file")
        if root is not None:
            _require_below(root, path, before)
        if max_bytes is not None and before.st_size > max_bytes:
            raise SkipError(Reason.TOO_LARGE, _too_large(max_bytes))
        yield file
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise SkipError(Reason.CHANGED, _CHANGED)


def _require_below(root: Path, path: Path, opened: os.stat_result) -> None:
    """Raises SkipError where the file that was opened by a path may not lie below the root."""
    found = path.resolve()
    if not found.is_relative_to(root):
        raise SkipError(Reason.OUTSIDE, _OUTSIDE)
    try:
        same = os.path.samestat(found.stat(), opened)
    except FileNotFoundError:
        same = False
    if not same:  # most often an editor has put a new file in its place
        raise SkipError(Reason.CHANGED, _CHANGED)


def read_regular(path: Path, *, max_bytes: int, root: Path | None = None) -> bytes:
    """The whole content of a regular file; raises SkipError, OSError as `open_regular`."""
    with open_regular(path, max_bytes=max_bytes, root=root) as file:
        body = file.read(max_bytes + 1)
        if len(body) > max_bytes:  # files of /proc have no size
            raise SkipError(Reason.TOO_LARGE, _too_large(max_bytes))
    return body


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def kind_of(mode: int) -> str:
    """What a file is that is not a regular one."""
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def _too_large(max_bytes: int) -> str:
    return f"the file is larger than {max_bytes // 1024 // 1024} MiB, the limit of a file; split it"


_SURROGATES = re.compile("[\ud800-\udfff]")
"""They stand for bytes of a name that are not UTF-8."""
_GENERATED = frozenset({"node_modules", "__pycache__"})
_CHANGED = "changed while it was read; run the ingest again"
_OUTSIDE = "the link leads out of the folder; ingest what it leads to, or copy it"
_REMEDIES = {
    **dict.fromkeys((".xls", ".ods", ".numbers"), "save it as .xlsx"),
    **dict.fromkeys((".doc", ".odt", ".rtf", ".pages"), "save it as .docx"),
    **dict.fromkeys((".ppt", ".odp", ".key", ".epub"), "save it as PDF"),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar"), "unpack it"),
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read, or why it is not read; `name` is its path below the folder, whose resolved
    path is `root`; a file that was named itself has none."""

    name: str
    path: Path
    skipped: Item | None = None
    root: Path | None = None


def find_files(
    path: Path, suffixes: frozenset[str], *, include: tuple[str, ...] = ()
) -> Iterator[FoundFile]:
    """The file itself, or what lies below the folder, in a stable order.

    Args:
        suffixes: of the types that can be read.
        include: glob patterns on the path below the folder (`**` crosses folders). What matches
            none is not mentioned; what matches counts as asked for, whatever its type.
    """
    if not path.is_dir():
        yield FoundFile(path.name, path, _unsupported(path.name, suffixes))
        return
    root = path.resolve()
    for name in _walk(path):
        if isinstance(name, Item):
            if not include or not name.left_out:
                yield FoundFile(name.origin, path / name.origin, name)
            continue
        if not is_included(name, include):
            continue
        skipped = _special(root, path / name, name)
        if skipped is None:
            skipped = _unsupported(name, suffixes, left_out=not include)
        yield FoundFile(name, path / name, skipped, root)


def is_included(name: str, include: tuple[str, ...]) -> bool:
    """Whether a path matches one of the patterns of `find_files`, or there are none."""
    return not include or any(_matches(name.split("/"), p.split("/")) for p in include)


def _walk(root: Path) -> Iterator[str | Item]:
    """Names of files; an item for what is hidden, generated, or a folder that cannot be listed."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(root / below) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            problem = f"cannot be listed: {error.strerror}"
            yield Item(below or str(root), problem=problem, reason=Reason.NOT_LISTED)
            continue
        folders = []
        for entry in entries:
            name = f"{below}{entry.name}"
            if _SURROGATES.search(entry.name):  # what the bus carries is UTF-8
                shown = name.encode("utf-8", "replace").decode()
                yield Item(shown, problem="cannot be read: its name is not UTF-8; rename it")
            elif entry.name.startswith(".") or entry.name in _GENERATED:
                problem = "hidden files and generated folders are not read"
                yield Item(name, problem=problem, reason=Reason.HIDDEN, left_out=True)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(f"{name}/")
            else:
                yield name
        waiting += reversed(folders)


def _special(root: Path, path: Path, name: str) -> Item | None:
    try:
        target = path.resolve(strict=True)
        mode = target.stat().st_mode
    except (OSError, RuntimeError) as error:  # RuntimeError: links that form a circle
        reason = error.strerror if isinstance(error, OSError) else "the link leads to itself"
        return Item(name, problem=f"cannot be read: {reason}")
    if not target.is_relative_to(root):
        return Item(name, problem=_OUTSIDE, reason=Reason.OUTSIDE)
    if stat.S_ISDIR(mode):
        problem = "a link to a folder; its files are read at their own place"
        return Item(name, problem=problem, reason=Reason.NOT_REGULAR, left_out=True)
    if not stat.S_ISREG(mode):
        problem = f"{kind_of(mode)}, not a regular file"
        return Item(name, problem=problem, reason=Reason.NOT_REGULAR)
    return None


def _unsupported(name: str, suffixes: frozenset[str], *, left_out: bool = False) -> Item | None:
    suffix = Path(name).suffix.lower()
    if suffix in suffixes:
        return None
    problem = f"unknown file type; supported: {', '.join(sorted(suffixes))}"
    if suffix in _REMEDIES:
        problem = f"{suffix} files are not read; {_REMEDIES[suffix]}"
    return Item(name, problem=problem, reason=Reason.UNSUPPORTED, left_out=left_out)


def _matches(name: list[str], pattern: list[str]) -> bool:
    """Match as shells do: `*` stays within a folder, `**` crosses folders.

    Takes time in proportion to the parts of both, whatever number of `**` there is.
    """
    reached = {0}  # so many parts of the pattern may have been used
    for part in name:
        reached = {
            i + (pattern[i] != "**")
            for i in _past_stars(reached, pattern)
            if i < len(pattern) and (pattern[i] == "**" or fnmatch(part, pattern[i]))
        }
    return len(pattern) in _past_stars(reached, pattern)


def _past_stars(reached: set[int], pattern: list[str]) -> set[int]:
    """Those that are reached, and those behind a `**` that stands for no folder."""
    found = set(reached)
    for i, part in enumerate(pattern):
        if part == "**" and i in found:
            found.add(i + 1)
    return found

"""Which sources are synced: an address on the command line, or the rows of a file.

    [[source]]
    name = "handbook"                              # the documents are known by it
    source = "./handbook"                          # below the folder of this file
    collection = "handbook"
    every = "15m"

An address is a folder or file, a folder with `.git`, `git+https://…`, `feed+https://…`,
`sitemap+https://…`, or `https://…` of a feed or sitemap. `#BRANCH` may follow a repository.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from searchbus_contracts import ErrorCode, Fault, is_token
from searchbus_runtime import open_bus
from searchbus_runtime.config_file import find_config
from searchbus_runtime.config_sources import Sources
from searchbus_runtime.files import expanded

from ..sending import Summary
from ..sources.fetching import SiteClient, Turns
from .repository import RepositorySource
from .site import Kind, SiteSource
from .source import FolderSource, SourceUnreadableError, SyncSource
from .state import SyncState, claimed, read_state, state_path, write_state
from .syncing import Sync, SyncSummary

MAX_SOURCES = 1000
MAX_SYNC_S = 24 * 3600.0
"""For one sync of one source: 50,000 pages take 14 hours where each is there within a second. The
next sync begins with what this one has not looked at."""
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
        raise _invalid(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{path}: {error}") from None
    seen = set()
    for row in rows:
        try:
            require_valid(row, path.absolute().parent)
        except Fault as fault:
            raise _invalid(f"{path}: {row.name}: {fault.failure.message}") from None
        if (row.name, row.collection) in seen:
            raise _invalid(f"{path}: {row.name} is there twice. Give each source its own name.")
        seen.add((row.name, row.collection))
    return rows


def require_valid(row: SourceRow, base: Path) -> None:
    """Raises Fault where a field is wrong; `base` as of `address_of`."""
    if not is_token(row.collection):
        raise _invalid("collection: use 1 to 64 letters, digits, _ and -.")
    seconds_of(row.every)
    kind, _ = address_of(row.source, base)
    if row.include and kind not in ("folder", "git"):
        raise _invalid("include: only files are chosen by it. Omit it for a feed or a sitemap.")


def seconds_of(every: str) -> float:
    """Seconds of a time such as 15m; raises Fault."""
    match = re.fullmatch(r"(\d{1,7})([smhd])", every)
    found = int(match[1]) * _UNITS_S[match[2]] if match else 0
    if not LEAST_EVERY_S <= found <= MOST_EVERY_S:
        raise _invalid(f"every={every[:20]}: write 30s, 15m, 6h or 1d; from 10 s to 30 days.")
    return float(found)


def address_of(text: str, base: Path) -> tuple[str, str]:
    """Kind (folder, git, feed, sitemap, or empty: feed or sitemap) and the absolute address, a
    relative path from `base`. Raises Fault for any other kind."""
    kind, plus, rest = text.partition("+")
    if not (plus and kind in _KINDS):
        kind, rest = "", text
    if rest.startswith(("http://", "https://")):
        if kind == "folder" or (kind == "git" and rest.startswith("http://")):
            raise _invalid(f"{text[:200]}: use https:// for git, and a path for a folder.")
        try:
            parts = urlsplit(rest)
            usable = bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise _invalid(f"source: {text[:200]} is not an address. Correct its host or port.")
        if "@" in parts.netloc:  # it would stand in every document
            raise _invalid("source: use an address without user and password.")
        return kind, rest
    if "://" in rest or kind in ("feed", "sitemap"):
        raise _invalid(
            f"{text[:200]}: use a path, git+https://, feed+https:// or sitemap+https://."
        )
    path, _, branch = rest.partition("#") if kind == "git" else (rest, "", "")
    try:
        absolute = (base / expanded(path)).resolve()
    except FileNotFoundError as error:
        raise _invalid(f"{text[:200]}: {error.strerror}; use the whole path.") from None
    if not kind:
        kind = "git" if (absolute / ".git").exists() else "folder"
    return kind, f"{absolute}#{branch}" if branch else str(absolute)


def _invalid(message: str) -> Fault:
    return Fault(ErrorCode.INVALID_ARGUMENT, message)


class Syncing:
    """Runs syncs of sources on one data folder, by the bus of the moment: a stack may start anew.
    `pause_s` is between two requests to one host."""

    def __init__(
        self, data: Path, *, base: Path, pause_s: float = 1.0, allow_deletes: bool = False
    ) -> None:
        self._data = data
        self._base = base
        self._pause_s = pause_s
        self._allow_deletes = allow_deletes
        self._turns = Turns()

    def due_s(self, row: SourceRow) -> float:
        """Seconds until the next sync is due; 0 after one that was interrupted or failed."""
        state = self._read(row)
        if state.problem or not state.ran_s:
            return 0.0
        return max(
            0.0, min(seconds_of(row.every), state.ran_s + seconds_of(row.every) - time.time())
        )

    async def run(
        self, row: SourceRow, on_progress: Callable[[Summary], None] = lambda summary: None
    ) -> SyncSummary:
        """Sync one source, and remember how it went.

        Raises:
            SourceBusyError, SourceUnreadableError, CommandError, Fault: nothing more was done.
            OSError: the data folder cannot be written.
        """
        path = state_path(self._data, row.collection, row.name)
        with claimed(path):
            state = self._read(row)
            try:
                summary = await self._sync(row, state, path, on_progress)
            except Exception as error:
                failed = self._read(row)
                failed.failures, failed.problem = state.failures + 1, str(error)[:1000]
                with suppress(OSError):  # the failure itself says more
                    self._write(path, failed)
                raise
            state.failures, state.problem = 0, ""
            if summary.held:
                state.problem = summary.notes[-1]
            state.counts = counts_of(summary)
            self._write(path, state)
            return summary

    async def _sync(
        self, row: SourceRow, state: SyncState, path: Path, on_progress: Callable[[Summary], None]
    ) -> SyncSummary:
        source = self._open(row, path.with_suffix(".git"))
        try:
            async with asyncio.timeout(MAX_SYNC_S) as limit:
                async with open_bus(self._data, "searchbus-sync") as bus:
                    return await Sync(
                        bus, source, state, path=path, allow_deletes=self._allow_deletes,
                        on_progress=on_progress,
                    ).run()  # fmt: skip
        except TimeoutError:
            if not limit.expired():
                raise
            hours = f"{MAX_SYNC_S / 3600:.0f} hours"
            problem = f"it took longer than {hours}; the next sync goes on"
            raise SourceUnreadableError(problem) from None
        finally:
            await source.close()

    def _open(self, row: SourceRow, home: Path) -> SyncSource:
        kind, target = address_of(row.source, self._base)
        if kind == "folder":
            return FolderSource(Path(target), row.include)
        if kind == "git":
            address, _, branch = target.partition("#")
            return RepositorySource(address, branch, home, row.include)
        client = SiteClient(target, self._routes(), self._pause_s, self._turns)
        return SiteSource(target, cast(Kind, kind), client)

    def _routes(self) -> Mapping[str, str]:
        """The operator's allowlist of the service `web`."""
        found = Sources("web", find_config(self._data)).find("web_routes")
        value = found.value if found is not None else {}
        try:
            if isinstance(value, str):
                return msgspec.json.decode(value, type=dict[str, str])
            return msgspec.convert(value, dict[str, str])
        except ValueError:
            raise _invalid('web_routes must be as {"wiki.corp.example": "10.0.0.7:80"}.') from None

    def _read(self, row: SourceRow) -> SyncState:
        path = state_path(self._data, row.collection, row.name)
        return read_state(
            path, row.name, row.collection, "+".join(address_of(row.source, self._base))
        )

    def _write(self, path: Path, state: SyncState) -> None:
        state.ran_s = time.time()
        write_state(path, state)


def counts_of(summary: SyncSummary) -> dict[str, int]:
    """Documents by outcome."""
    return {
        "stored": summary.stored, "replaced": summary.replaced, "unchanged": summary.unchanged,
        "deleted": summary.deleted, "held": summary.held, "failed": len(summary.failed),
    }  # fmt: skip

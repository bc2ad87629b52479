"""Runs syncs of sources, and remembers how they went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from searchbus_runtime import open_bus
from searchbus_runtime.config_file import find_config
from searchbus_runtime.config_sources import Sources

from ..sending import Summary
from ..sources.fetching import SiteClient, Turns
from .repository import RepositorySource
from .rows import SourceRow, address_of, invalid, seconds_of
from .site import Kind, SiteSource
from .source import FolderSource, SourceUnreadableError, SyncSource
from .state import SyncState, claimed, read_state, state_path, write_state
from .syncing import Sync, SyncSummary

MAX_SYNC_S = 24 * 3600.0
"""For one sync of one source: 50,000 pages take 14 hours where each is there within a second. The
next sync begins with what this one has not looked at."""


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
            raise invalid('web_routes must be as {"wiki.corp.example": "10.0.0.7:80"}.') from None

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

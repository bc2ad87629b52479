"""`searchbus sync`: sources that stay in sync with a collection, once or on a schedule."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from searchbus_cli.output import echo, fail, print_error, tell
from searchbus_contracts import ErrorCode, Fault
from searchbus_runtime import data_folder, find_bus
from searchbus_runtime.files import file_stamp
from searchbus_runtime.wording import CommandError

from ..ingest_command import quiet_libraries
from ..progress import ProgressReport
from ..sending import Summary
from .jobs import Syncing, counts_of
from .rows import SLOT_S, SourceRow, address_of, read_rows, require_valid, seconds_of
from .source import SourceUnreadableError
from .state import SourceBusyError
from .syncing import SyncSummary

_USAGE = 2
AT_ONCE = 4
"""Sources of a file that are synced at the same time, beside those that take longer."""
LOOK_EVERY_S = 2.0
"""Between looks at the file of sources, and for a stack that starts."""
AFTER_FAILURE_S = 60.0
SHOWN = 20
_FAILURES = (SourceBusyError, SourceUnreadableError, CommandError, Fault, OSError)


def sync(
    source: Annotated[
        str, typer.Argument(help="A folder, a git repository, a feed or a sitemap.")
    ] = "",
    collection: Annotated[str, typer.Option(help="The collection to keep in sync.")] = "",
    name: Annotated[
        str, typer.Option(help="Name of the source in its documents; by default its address.")
    ] = "",
    every: Annotated[
        str, typer.Option(help="Sync again and again after this time: 30s, 15m, 6h, 1d.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option(help="Sync the sources of this file, each on its schedule.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Sync each source of the file once.")
    ] = False,
    include: Annotated[
        list[str] | None, typer.Option(help="Only files that match this glob; may be repeated.")
    ] = None,
    allow_deletes: Annotated[
        bool,
        typer.Option("--allow-deletes", help="Delete also more than half of the documents."),
    ] = False,
    pause_s: Annotated[float, typer.Option(hidden=True)] = 1.0,
    wait: Annotated[bool, typer.Option("--wait", hidden=True)] = False,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Name everything that is skipped.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Bring a collection up to date with a source: new, changed and deleted documents.

    Example: searchbus sync ./handbook --collection handbook
    """
    folder = data_folder(data)
    if bool(source) == (file is not None):
        raise fail("Give a source, or --file with sources.", _USAGE)
    syncing = Syncing(
        folder, base=Path.cwd() if file is None else file.absolute().parent,
        pause_s=pause_s, allow_deletes=allow_deletes,
    )  # fmt: skip
    run = _Run(syncing, as_json=as_json, verbose=verbose)
    try:
        if file is None:
            row = _row(source, collection, name, every, tuple(include or ()))
            if every:
                asyncio.run(_until_ended(run.keep(lambda: (row,), None, folder, wait=wait)))
                return
            asyncio.run(run.once([row], progress=True))
        elif once:
            asyncio.run(run.once(read_rows(file), progress=False))
        else:
            if not wait:
                read_rows(file)
            asyncio.run(_until_ended(run.keep(lambda: read_rows(file), file, folder, wait=wait)))
            return
    except Fault as fault:
        raise fail(fault.failure.message, _USAGE) from None
    except KeyboardInterrupt:
        raise fail("Interrupted. The next sync continues.", 130) from None
    if run.code:
        raise typer.Exit(run.code)


def _row(
    source: str, collection: str, name: str, every: str, include: tuple[str, ...]
) -> SourceRow:
    """The source of a command line; raises Fault."""
    if not collection:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, "Give the collection to keep in sync: --collection NAME."
        )
    kind, address = address_of(source, Path.cwd())
    row = SourceRow(name or address, f"{kind}+{address}".lstrip("+"), collection, include=include)
    if every:
        row = msgspec.structs.replace(row, every=every)
    require_valid(row, Path.cwd())
    return row


async def _until_ended(work: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM."""
    task = asyncio.create_task(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with quiet_libraries(), suppress(asyncio.CancelledError):
        await task


class _Run:
    """Syncs sources and prints how it went."""

    def __init__(self, syncing: Syncing, *, as_json: bool, verbose: bool) -> None:
        self.code = 0
        self._syncing = syncing
        self._as_json = as_json
        self._verbose = verbose
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def once(self, rows: list[SourceRow] | tuple[SourceRow, ...], *, progress: bool) -> None:
        """Sync each source once; `progress` is shown of a single one."""
        report = ProgressReport() if progress else None
        with quiet_libraries(), report or nullcontext():
            show = report.show if report else lambda summary: None
            await asyncio.gather(*(self._one(row, show) for row in rows))

    async def keep(
        self, read: Callable[[], tuple[SourceRow, ...]], file: Path | None, folder: Path, *,
        wait: bool,
    ) -> None:  # fmt: skip
        """Sync the sources of a file on their schedules until it is cancelled; the file is read
        again when it changes, and a wrong one changes nothing."""
        tasks: dict[SourceRow, asyncio.Task[None]] = {}
        seen: object = ""
        try:
            while True:
                stamp = file_stamp(file) if file is not None else None
                if stamp != seen and not (wait and find_bus(folder) is None):
                    seen, wait = stamp, False
                    self._follow(tasks, read)
                for task in tasks.values():
                    if task.done():
                        task.result()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _follow(
        self, tasks: dict[SourceRow, asyncio.Task[None]], read: Callable[[], tuple[SourceRow, ...]]
    ) -> None:
        try:
            rows = read()
        except Fault as fault:
            print_error(fault.failure.message)
            return
        for row in tasks.keys() - set(rows):
            tasks.pop(row).cancel()
        for row in rows:
            if row not in tasks:
                tasks[row] = asyncio.create_task(self._schedule(row))

    async def _schedule(self, row: SourceRow) -> None:
        await asyncio.sleep(self._syncing.due_s(row))
        while True:
            ok = await self._one(row)
            every_s = seconds_of(row.every)
            await asyncio.sleep(every_s if ok else min(every_s, AFTER_FAILURE_S))

    async def _one(
        self, row: SourceRow, on_progress: Callable[[Summary], None] = lambda summary: None
    ) -> bool:
        await self._slots.acquire()
        with ExitStack() as slot:
            slot.callback(self._slots.release)
            asyncio.get_running_loop().call_later(SLOT_S, slot.close)
            return await self._run(row, on_progress)

    async def _run(self, row: SourceRow, on_progress: Callable[[Summary], None]) -> bool:
        started_s = time.monotonic()
        try:
            summary = await self._syncing.run(row, on_progress)
        except _FAILURES as error:
            self.code = max(self.code, 1 if isinstance(error, SourceBusyError) else _USAGE)
            text = str(error)  # which begins with the address, the usual name
            print_error(text if text.startswith(row.name) else f"{row.name}: {text}")
            return False
        except Exception as error:  # a fault of ours on one source holds up no other
            self.code = _USAGE
            print_error(f"{row.name}: {type(error).__name__}: {error}")
            traceback.print_exc()
            return False
        if summary.failed or summary.held:
            self.code = max(self.code, 1)
        self._print(row, summary, time.monotonic() - started_s)
        return True

    def _print(self, row: SourceRow, summary: SyncSummary, seconds: float) -> None:
        if self._as_json:
            echo(json.dumps({
                "name": row.name, "collection": row.collection, **counts_of(summary),
                "chunks": summary.chunks, "skipped": [str(item) for item in summary.skipped],
                "notes": summary.notes, "seconds": round(seconds, 2),
            }))  # fmt: skip
            return
        for item in summary.skipped if self._verbose else summary.failed[:SHOWN]:
            tell(f"skipped {item}")
        for note in summary.notes[:SHOWN]:
            tell(f"note {note}")
        counts = (
            f"{summary.stored} stored, {summary.replaced} replaced, {summary.unchanged} unchanged, "
            f"{summary.deleted} deleted, {len(summary.failed)} not read"
        )
        echo(f"{row.name}: {counts}; {summary.chunks} passages in {seconds:.1f} s")

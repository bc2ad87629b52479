"""`searchbus ingest`: reads, cuts and sends documents to the running stack."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from searchbus_bus import connect
from searchbus_contracts import Fault, is_token
from searchbus_contracts.retrieval import FieldType
from searchbus_runtime import BusAddress, data_folder, find_bus

from .sending import Summary, delete_documents, send
from .sources.files import read_path
from .sources.fomc_site import BASE_URL, FomcSite
from .sources.item import Item

__all__ = ["ingest"]

errors = Console(stderr=True)


def ingest(
    source: Annotated[
        str, typer.Argument(help="A file, a folder, or 'fomc' for federalreserve.gov.")
    ],
    collection: Annotated[str, typer.Option(help="The collection to fill.")],
    include: Annotated[
        list[str] | None, typer.Option(help="Only files that match this glob; may be repeated.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(help="Type of a metadata field, name=keyword|integer|float|datetime|bool."),
    ] = None,
    prune: Annotated[
        bool, typer.Option(help="Delete documents of the collection that the source lacks.")
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option(help="Delete this document id instead; may be repeated.")
    ] = None,
    site: Annotated[str, typer.Option(hidden=True)] = BASE_URL,
    pause_s: Annotated[float, typer.Option(hidden=True)] = 1.0,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read documents, cut them into passages and store them.

    A rerun changes nothing; changed documents replace their passages; after an interruption the
    same command goes on.

    Example: searchbus ingest ./handbook --collection handbook
    """
    if not is_token(collection):
        raise _quit("--collection: 1 to 64 of letters, digits, _ and -.")
    fields = _fields(field or [])
    folder = data_folder(data)
    address = find_bus(folder)
    if address is None:
        raise _quit(
            f"No stack is running on {folder}. Start one: searchbus up; or set SEARCHBUS_NATS_URL"
        )
    if delete:
        count = asyncio.run(_delete(address, collection, tuple(delete)))
        typer.echo(json.dumps({"deleted": count}) if as_json else f"{count} deleted")
        return
    items, total = _open(source, collection, tuple(include or ()), folder, site, pause_s)
    started_s = time.monotonic()
    try:
        with _Reporter(total, quiet=as_json) as reporter:
            summary = asyncio.run(_send(address, collection, items, fields, prune, reporter))
    except* Fault as group:
        fault = group.exceptions[0]
        while isinstance(fault, BaseExceptionGroup):
            fault = fault.exceptions[0]
        raise _quit(str(fault)) from None
    except* KeyboardInterrupt:
        raise _quit("interrupted; the same command goes on where this one stopped", 130) from None
    _print(summary, collection, time.monotonic() - started_s, as_json)
    if summary.skipped:
        raise typer.Exit(1)


def _print(summary: Summary, collection: str, seconds: float, as_json: bool) -> None:
    rate = (summary.stored + summary.replaced) / seconds if seconds else 0.0
    if as_json:
        body: dict[str, Any] = {
            "collection": collection,
            "stored": summary.stored,
            "replaced": summary.replaced,
            "unchanged": summary.unchanged,
            "deleted": summary.deleted,
            "chunks": summary.chunks,
            "skipped": summary.skipped,
            "seconds": round(seconds, 2),
            "documents_per_s": round(rate, 2),
        }
        typer.echo(json.dumps(body))
        return
    for problem in summary.skipped:
        errors.print(f"[yellow]skipped[/] {problem}", highlight=False, soft_wrap=True)
    deleted = f", {summary.deleted} deleted" if summary.deleted else ""
    typer.echo(
        f"{collection}: {summary.stored} stored, {summary.replaced} replaced, "
        f"{summary.unchanged} unchanged, {len(summary.skipped)} skipped{deleted}; "
        f"{summary.chunks} passages in {seconds:.1f} s ({rate:.1f} documents/s)"
    )


def _open(
    source: str, collection: str, include: tuple[str, ...], folder: Path, site: str, pause_s: float
) -> tuple[Iterator[Item], int | None]:
    if source == "fomc" and not Path(source).exists():
        cache = folder / "fomc-site"
        return FomcSite(cache, base_url=site, pause_s=pause_s).read(collection), None
    path = Path(source)
    if not path.exists():
        raise _quit(f"{source}: there is no such file or folder.")
    total = None
    if path.is_file() and path.suffix in (".jsonl", ".ndjson"):
        with path.open("rb") as lines:
            total = sum(1 for line in lines if line.strip())
    return read_path(path, collection, include=include), total


async def _send(
    address: BusAddress,
    collection: str,
    items: Iterator[Item],
    fields: dict[str, FieldType],
    prune: bool,
    reporter: _Reporter,
) -> Summary:
    bus = await connect(address.url, name="searchbus-ingest", **address.options)
    try:
        return await send(
            bus, collection, items, fields=fields, prune=prune, on_progress=reporter.show
        )
    finally:
        await bus.close()


async def _delete(address: BusAddress, collection: str, ids: tuple[str, ...]) -> int:
    bus = await connect(address.url, name="searchbus-ingest", **address.options)
    try:
        return await delete_documents(bus, collection, ids)
    except Fault as fault:
        raise _quit(str(fault)) from None
    finally:
        await bus.close()


class _Reporter:
    """A bar on a terminal; a plain line every few seconds elsewhere."""

    def __init__(self, total: int | None, *, quiet: bool) -> None:
        self._quiet = quiet
        self._started_s = self._last_line_s = time.monotonic()
        self._bar: Progress | None = None
        if errors.is_terminal and not quiet:
            self._bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
                MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn(),
                TimeRemainingColumn(), console=errors,
            )  # fmt: skip
            self._task = self._bar.add_task("documents", total=total, rate="")
        self._total = total

    def __enter__(self) -> _Reporter:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, summary: Summary) -> None:
        """Tell how far it is."""
        now_s = time.monotonic()
        done = summary.documents + len(summary.skipped)
        sent = summary.stored + summary.replaced
        elapsed_s = max(0.001, now_s - self._started_s)
        rate = f"{sent / elapsed_s:.1f} documents/s, {summary.chunks / elapsed_s:.0f} passages/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, rate=rate)
        elif not self._quiet and now_s - self._last_line_s > 5:
            self._last_line_s = now_s
            of = ""
            if self._total:
                left_s = elapsed_s / max(1, done) * (self._total - done)
                of = f" of {self._total}, about {left_s:.0f} s left"
            sys.stderr.write(f"{done}{of}; {rate}\n")


def _fields(declared: list[str]) -> dict[str, FieldType]:
    fields: dict[str, FieldType] = {}
    for text in declared:
        name, _, kind = text.partition("=")
        if kind not in get_args(FieldType) or not name.isidentifier():
            kinds = "|".join(get_args(FieldType))
            raise _quit(f"--field {text}: write name={kinds}.")
        fields[name] = cast(FieldType, kind)
    return fields


def _quit(message: str, code: int = 2) -> typer.Exit:
    errors.print(f"[red]error:[/] {message}", highlight=False, soft_wrap=True)
    return typer.Exit(code)

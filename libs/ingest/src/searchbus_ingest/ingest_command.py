"""`searchbus ingest`: reads documents, cuts them into passages, sends them to the stack."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.text import Text

from searchbus_cli.output import echo, err, fail
from searchbus_contracts import ErrorCode, Fault, is_token
from searchbus_contracts.retrieval import FieldType
from searchbus_runtime import data_folder, find_bus, no_stack, open_bus

from .progress import ProgressReport
from .sending import Retrieval, Summary, delete, send
from .sources.content import SUFFIXES
from .sources.files import read_files
from .sources.fomc_site import BASE_URL, FomcSite
from .sources.item import Item
from .sources.jsonl import count_lines
from .sources.reading import Reader
from .sources.walk import find_files

_USAGE = 2
MAX_DOCUMENTS = 1_000_000
"""One run keeps the id of each in memory."""


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
    rebuild: Annotated[
        bool,
        typer.Option(
            help="Make the collection anew beside itself, with the settings that new collections "
            "have now; it takes its place once it has all documents, or with --prune."
        ),
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option(help="Delete this document id instead; may be repeated.")
    ] = None,
    site: Annotated[str, typer.Option(hidden=True)] = BASE_URL,
    pause_s: Annotated[float, typer.Option(hidden=True)] = 1.0,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Name every file that is skipped.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read documents, cut them into passages and store them.

    A second run sends only new and changed documents; so it also continues an interrupted run.

    Example: searchbus ingest ./handbook --collection handbook
    """
    if not is_token(collection):
        raise fail("--collection: use 1 to 64 letters, digits, _ and -.", _USAGE)
    fields = _fields(field or [])
    folder = data_folder(data)
    if find_bus(folder) is None:
        raise fail(no_stack(folder), _USAGE)
    if delete:
        try:
            count = asyncio.run(_delete(folder, collection, tuple(delete)))
        except Fault as fault:
            raise fail(str(fault), _USAGE) from None
        echo(json.dumps({"deleted": count}) if as_json else f"{count} deleted")
        return
    progress, reader = ProgressReport(), Reader()
    items = _open(source, collection, tuple(include or ()), folder, site, pause_s, progress, reader)
    started_s = time.monotonic()

    async def run() -> Summary:
        async with reader, open_bus(folder, "searchbus-ingest") as bus:
            return await send(
                bus, collection, items, fields=fields, prune=prune, rebuild=rebuild,
                on_progress=progress.show,
            )  # fmt: skip

    try:
        with quiet_libraries(), progress:
            summary = asyncio.run(run())
    except Fault as fault:
        raise fail(str(fault), _USAGE) from None
    except KeyboardInterrupt:
        raise fail("Interrupted. Run the same command again to continue.", 130) from None
    _print(summary, collection, time.monotonic() - started_s, as_json, verbose)
    if summary.failed or summary.missing:
        raise typer.Exit(1)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep what parsers warn of and log to themselves: what a file lost is said in our words."""
    # Without any handler, Python writes the warnings of every logger to standard error.
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger().removeHandler(handler)


def _print(summary: Summary, collection: str, seconds: float, as_json: bool, verbose: bool) -> None:
    rate = (summary.stored + summary.replaced) / seconds if seconds else 0.0
    if as_json:
        body: dict[str, Any] = {
            "collection": collection,
            "stored": summary.stored,
            "replaced": summary.replaced,
            "unchanged": summary.unchanged,
            "deleted": summary.deleted,
            "missing": summary.missing,
            "chunks": summary.chunks,
            "skipped": [str(item) for item in summary.skipped],
            "skipped_by_reason": summary.reasons,
            "failed": len(summary.failed),
            "notes": summary.notes,
            "seconds": round(seconds, 2),
            "documents_per_s": round(rate, 2),
        }
        echo(json.dumps(body))
        return
    for item in summary.skipped if verbose else summary.failed:
        err.print(Text.assemble(("skipped", "yellow"), f" {item}"), highlight=False, soft_wrap=True)
    for note in summary.notes:
        err.print(Text.assemble(("note", "yellow"), f" {note}"), highlight=False, soft_wrap=True)
    if len(summary.failed) < len(summary.skipped) and not verbose:
        err.print("--verbose names every file that was left out", highlight=False)
    deleted = f", {summary.deleted} deleted" if summary.deleted else ""
    echo(
        f"{collection}: {summary.stored} stored, {summary.replaced} replaced, "
        f"{summary.unchanged} unchanged, {len(summary.skipped)} skipped{deleted}; "
        f"{summary.chunks} passages in {seconds:.1f} s ({rate:.1f} documents/s)"
    )
    if summary.skipped:
        counts = ", ".join(f"{count} {reason}" for reason, count in summary.reasons.items())
        echo(f"skipped: {counts}")


def _open(
    source: str,
    collection: str,
    include: tuple[str, ...],
    folder: Path,
    site: str,
    pause_s: float,
    progress: ProgressReport,
    reader: Reader,
) -> AsyncIterator[Item]:
    if source == "fomc" and not Path(source).exists():
        cache = folder / "fomc-site"
        return FomcSite(cache, base_url=site, pause_s=pause_s).read(collection)
    path = Path(source)
    if not source:  # a variable of a shell that is not set; a path of it is the folder where one is
        raise fail("The source is empty. Give a file, a folder or an address.", _USAGE)
    if not path.exists():
        raise fail(f"{source}: there is no such file or folder.", _USAGE)
    files = list(find_files(path, SUFFIXES, include=include))
    if path.is_file() and path.suffix.lower() in (".jsonl", ".ndjson"):
        progress.documents_total = count_lines(path)
    else:
        progress.files_total = len(files)
    items = read_files(files, collection, reader, on_file=progress.file_done)
    return _counted(items, progress)


async def _counted(items: AsyncIterator[Item], progress: ProgressReport) -> AsyncIterator[Item]:
    documents = 0
    async for item in items:
        documents += item.document is not None
        if documents > MAX_DOCUMENTS:
            message = (
                f"{item.origin}: more than {MAX_DOCUMENTS:,} documents, the limit of one ingest. "
                "Those before it are stored. Ingest parts of the source, one after the other."
            )
            raise Fault(ErrorCode.INVALID_ARGUMENT, message)
        progress.item_read()
        yield item


async def _delete(folder: Path, collection: str, ids: tuple[str, ...]) -> int:
    async with open_bus(folder, "searchbus-ingest") as bus:
        return await delete(Retrieval(bus), collection, ids)


def _fields(declared: list[str]) -> dict[str, FieldType]:
    fields: dict[str, FieldType] = {}
    for text in declared:
        name, _, kind = text.partition("=")
        if kind not in get_args(FieldType) or not name.isidentifier():
            kinds = "|".join(get_args(FieldType))
            raise fail(f"--field {text}: write name={kinds}.", _USAGE)
        fields[name] = cast(FieldType, kind)
    return fields

"""`searchbus backup`: copies what a stack keeps, while it serves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer

from searchbus_bus import Bus
from searchbus_cli.output import echo, fail
from searchbus_contracts import VERSION, Fault, encode
from searchbus_contracts.ingest import CollectionCopy, ExportReply, ExportRequest
from searchbus_contracts.retrieval import CollectionInfo, ListReply, ListRequest
from searchbus_runtime import data_folder, find_bus, no_stack, open_bus
from searchbus_runtime.config_file import find_config
from searchbus_runtime.config_sources import configured_path

from ..progress import StepProgress
from ..sending import Retrieval
from .archive import (
    DATED,
    FORMAT,
    KEPT,
    LACKING,
    MANIFEST,
    BackupError,
    Entry,
    Manifest,
    add_file,
    create,
    entry_of,
    keep_newest,
    new_backup,
    remove_cut_off,
)

PROTOCOL = "v1"
_TIMEOUT_S = 120.0


def backup(
    dest: Annotated[Path, typer.Argument(help="The new file, such as NAME.tar.")],
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="DEST is a folder of backups: add one named by the time, then delete all but the "
            "newest so many.",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data folder of the running stack.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Copy documents with their vectors, keys, approvals, sign-ins and settings.

    The stack goes on serving. The copy has secrets: it is readable by its owner only.

    Example: searchbus backup ./searchbus-backup.tar
    """
    folder = data_folder(data)
    if find_bus(folder) is None:
        raise fail(no_stack(folder), 2)
    dest = dest.absolute()
    if keep is not None:
        dest /= datetime.now(UTC).strftime(DATED)
    try:
        if keep is not None:
            remove_cut_off(dest.parent)  # first: they may fill the disk
        with StepProgress() as progress, new_backup(dest) as draft:
            manifest = asyncio.run(_fill(draft, folder, progress))
            add_file(draft, MANIFEST, encode(manifest))
    except (BackupError, Fault) as error:
        raise fail(f"{error} No backup was made.", 2) from None
    except OSError as error:
        raise fail(f"{dest} cannot be written ({error}). No backup was made.", 2) from None
    except KeyboardInterrupt:
        raise fail("Interrupted. No backup was made.", 130) from None
    if keep is not None:
        if manifest.left_out:  # it takes the place of none that may have them
            dest = dest.rename(dest.with_name(f"{dest.name}{LACKING}"))
        keep_newest(dest.parent, keep)
    _print(dest, manifest, as_json)
    if manifest.left_out:
        raise fail(
            f"left out, because they are damaged: {', '.join(manifest.left_out)}. "
            "`searchbus doctor` says what to do."
        )


def _print(dest: Path, manifest: Manifest, as_json: bool) -> None:
    documents = sum(entry.documents for entry in manifest.entries)
    size_bytes = sum(entry.size_bytes for entry in manifest.entries)
    if as_json:
        body = {
            "backup": str(dest),
            "made": manifest.made,
            "size_bytes": size_bytes,
            "files": [e.name for e in manifest.entries if not e.collection],
            "collections": {e.collection: e.documents for e in manifest.entries if e.collection},
            "left_out": manifest.left_out,
        }
        echo(json.dumps(body))
        return
    files = sum(not entry.collection for entry in manifest.entries)
    echo(
        f"{dest}: {size_bytes / 2**20:.1f} MiB; files: {files}, "
        f"collections: {len(manifest.collections)}, documents: {documents}"
    )


async def _fill(draft: Path, folder: Path, progress: StepProgress) -> Manifest:
    entries = list(_copy_files(draft, folder))
    copies: dict[str, CollectionCopy] = {}
    left_out = []
    async with open_bus(folder, "searchbus-backup") as bus:
        for info in await collections_of(bus):
            if info.damage:
                left_out.append(info.name)
                continue
            progress.step(f"collection {info.name}, documents", info.documents)
            entry, copies[info.name] = await _copy_collection(draft, bus, info.name, progress)
            entries.append(entry)
    return Manifest(
        format=FORMAT,
        version=VERSION,
        protocol=PROTOCOL,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        entries=tuple(entries),
        collections=copies,
        left_out=tuple(left_out),
    ).signed()


def _copy_files(draft: Path, folder: Path) -> Iterator[Entry]:
    """Each is replaced in one step by whoever writes it, so that a copy is never half of one."""
    for name, path in _places(folder):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        entry = add_file(draft, f"files/{name}", content)
        own = folder / name
        yield entry if path == own else msgspec.structs.replace(entry, origin=str(path))


def _places(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name in the data folder, and where the file is."""
    config = find_config(folder)
    for name, (service, setting) in KEPT.items():
        if name == "searchbus.toml" and config is not None:
            yield name, config.path
        else:
            set_to = configured_path(setting, service, folder) if setting else None
            yield name, set_to or folder / name
    profiles = configured_path("profile_dir", "retrieval", folder)
    if profiles is not None:
        for path in sorted(profiles.glob("*.toml")):
            yield f"profiles/{path.name}", path


async def collections_of(bus: Bus) -> tuple[CollectionInfo, ...]:
    """Every collection of a stack; raises Fault."""
    service = Retrieval(bus)
    reply = await service.ask("list", ListRequest(), ListReply, timeout_s=_TIMEOUT_S)
    return reply.collections


async def _copy_collection(
    draft: Path, bus: Bus, name: str, progress: StepProgress
) -> tuple[Entry, CollectionCopy]:
    service = Retrieval(bus)
    path = f"collections/{name}.jsonl"
    with create(draft, path) as file:
        written = _Written(file)
        cursor: str | None = None
        while True:
            request = ExportRequest(collection=name, cursor=cursor)
            reply = await service.ask("export", request, ExportReply, timeout_s=_TIMEOUT_S)
            await asyncio.to_thread(written.add, reply)
            progress.advance(reply.documents)
            cursor = reply.next_cursor
            if cursor is None:
                break
    entry = await asyncio.to_thread(entry_of, draft, path)
    counts = {"documents": written.documents, "points": written.points}
    return msgspec.structs.replace(entry, **counts), reply.collection


class _Written:
    """The points of a collection in a file; those of an unfinished document may be dropped."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.documents = self.points = 0
        self._finished: tuple[int, int] | None = None
        """Bytes and points before the unfinished document."""

    def add(self, reply: ExportReply) -> None:
        """Append the points of a reply."""
        if reply.restarted and self._finished is not None:
            size_bytes, self.points = self._finished
            self._file.seek(size_bytes)
            self._file.truncate()
            self._finished = None
        complete = len(reply.points) - reply.unfinished
        self._append(reply.points[:complete])
        if complete or not reply.unfinished or self._finished is None:
            self._finished = (self._file.tell(), self.points) if reply.unfinished else None
        self._append(reply.points[complete:])
        self.documents += reply.documents

    def _append(self, points: tuple[object, ...]) -> None:
        self._file.writelines(encode(point) + b"\n" for point in points)
        self.points += len(points)

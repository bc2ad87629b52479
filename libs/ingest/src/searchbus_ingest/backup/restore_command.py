"""`searchbus restore`: puts a backup in place, all of it or nothing."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from searchbus_cli.errors import StackError
from searchbus_cli.output import echo, fail, tell
from searchbus_cli.stack import Stack
from searchbus_cli.stack_folder import claim_folder, restored
from searchbus_contracts import ErrorCode, Fault, decode
from searchbus_contracts.ingest import (
    DeleteReply,
    DeleteRequest,
    PointCopy,
    RestoreReply,
    RestoreRequest,
)
from searchbus_runtime import (
    BusAddress,
    data_folder,
    find_bus,
    open_bus,
    read_state,
    stack_options,
)
from searchbus_runtime.config_file import find_config
from searchbus_runtime.state import LOCK_FILE

from ..progress import StepProgress
from ..sending import DELETE_TIMEOUT_S, Retrieval
from .archive import KEPT, Backup, BackupError, Entry, create
from .backup_command import collections_of

_TIMEOUT_S = 120.0
_REQUEST_BYTES = 4 * 1024 * 1024
_REQUEST_POINTS = 512
_DOCUMENTS = "fomc"
"""The toolset of the service that keeps documents."""


def restore(
    source: Annotated[Path, typer.Argument(help="The file of a backup.")],
    data: Annotated[Path | None, typer.Option(help="Data folder to restore into.")] = None,
    replace: Annotated[
        bool,
        typer.Option(
            help="Restore where something is: a data folder is kept beside itself, collections of "
            "a running stack or of a Qdrant server are replaced."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Restore a backup; it is checked whole before anything is changed.

    Documents go into the engine that the settings name, with the vectors of the backup. With
    SEARCHBUS_NATS_URL only documents are restored, into the stack that is there.

    Example: searchbus restore ./searchbus-backup.tar --data ./restored
    """
    folder = data_folder(data)
    address = find_bus(folder)
    try:
        with StepProgress() as progress, Backup(source) as backup:
            entries = backup.manifest.entries
            progress.step("checking, files", len(entries))
            backup.check(lambda entry: progress.advance())
            if address is not None and read_state(folder) is None:
                asyncio.run(_into_bus(backup, address, replace, progress))
                kept, files = None, []
                tell("only documents were restored: this stack's files are where it runs")
            else:
                kept = _into_folder(backup, folder, replace, progress)
                files = [entry for entry in entries if not entry.collection]
    except (BackupError, StackError, Fault) as error:
        raise fail(str(error), 2) from None
    except OSError as error:
        raise fail(f"{error}. Nothing was replaced.", 2) from None
    except KeyboardInterrupt:
        raise fail("Interrupted. Nothing was replaced.", 130) from None
    _print(source, folder, files, [e for e in entries if e.collection], kept, as_json)


def _print(
    source: Path, folder: Path, files: list[Entry], collections: list[Entry], kept: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    if as_json:
        body = {
            "restored": str(source),
            "data": str(folder),
            "files": [entry.name for entry in files],
            "collections": {entry.collection: entry.documents for entry in collections},
            "kept": None if kept is None else str(kept),
        }
        echo(json.dumps(body))
        return
    documents = sum(entry.documents for entry in collections)
    echo(
        f"{source} is restored into {folder}; files: {len(files)}, "
        f"collections: {len(collections)}, documents: {documents}"
    )
    if kept is not None:
        echo(f"what was there is in {kept}")
    for entry in files:
        if entry.origin:
            tell(f"{entry.name} was {entry.origin}: copy it there if your settings name that place")


def _into_folder(
    backup: Backup, folder: Path, replace: bool, progress: StepProgress
) -> Path | None:
    """Make a new data folder and put it in the place of the old one, which is returned."""
    with claim_folder(folder):
        present = [entry.name for entry in folder.iterdir() if entry.name != LOCK_FILE]
        if present and not replace:
            raise BackupError(
                f"{folder} is in use: it has {', '.join(sorted(present)[:3])}. Restore into "
                "another folder with --data, or use --replace, which keeps what is there beside it."
            )
        draft = folder.with_name(f".{folder.name}.restoring")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        try:
            for entry in backup.manifest.entries:
                if not entry.collection:
                    with backup.open(entry.path) as file, create(draft, entry.name) as copy:
                        shutil.copyfileobj(file, copy)
            asyncio.run(_into_own_stack(backup, draft, replace, progress))
            # What the stack that stored the documents wrote beside them goes.
            kept = {Path(name).parts[0] for name in KEPT} | {"profiles", "qdrant"}
            for path in draft.iterdir():
                if path.name not in kept:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return _exchange(draft, folder, keep=bool(present))
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _exchange(draft: Path, folder: Path, *, keep: bool) -> Path | None:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    old = folder.with_name(f"{folder.name}.before-{stamp}")
    # Killed between the next two steps, whoever claims the folder takes the last one.
    whole = restored(folder)
    shutil.rmtree(whole, ignore_errors=True)
    draft.rename(whole)
    try:
        folder.rename(old)
    except OSError as error:
        shutil.rmtree(whole)
        raise BackupError(
            f"{folder} cannot be replaced ({error.strerror}), as where it is a volume. Restore "
            "into a folder below it with --data."
        ) from None
    whole.rename(folder)
    if keep:
        return old
    shutil.rmtree(old)
    return None


async def _into_own_stack(
    backup: Backup, folder: Path, replace: bool, progress: StepProgress
) -> None:
    """Store the documents by a service that this command starts and stops."""
    if not any(entry.documents for entry in backup.manifest.entries):
        return
    # Nothing is embedded, so no model is needed here.
    stack = Stack(
        data=folder, toolsets={_DOCUMENTS}, with_edge=False, port=0, config=find_config(folder),
        environment={"SEARCHBUS_EMBEDDER": "hash"}, secure=True,
    )  # fmt: skip
    try:
        await stack.start()
        address = BusAddress(stack.nats_url, stack_options(folder))
        await _into_bus(backup, address, replace, progress)
    finally:
        await stack.stop()


async def _into_bus(
    backup: Backup, address: BusAddress, replace: bool, progress: StepProgress
) -> None:
    """Store every collection beside itself, then put each in its place."""
    wanted = [entry for entry in backup.manifest.entries if entry.documents]
    async with open_bus(address, "searchbus-restore") as bus:
        present = {info.name for info in await collections_of(bus)}
        taken = sorted(present & {entry.collection for entry in wanted})
        if taken and not replace:
            raise BackupError(
                f"There are collections of these names already: {', '.join(taken)}. Delete them, "
                "or replace them with --replace."
            )
        service = Retrieval(bus)
        for entry in wanted:
            await _store(backup, entry, service, progress)
        for entry in wanted:
            await service.rebuild(entry.collection, "end")


async def _store(backup: Backup, entry: Entry, service: Retrieval, progress: StepProgress) -> None:
    name = entry.collection
    progress.step(f"collection {name}, points", entry.points)
    left = DeleteRequest(collection=name, staged=True)
    try:
        await service.ask("delete", left, DeleteReply, timeout_s=DELETE_TIMEOUT_S)
    except Fault as fault:
        if fault.code != ErrorCode.NOT_FOUND:
            raise
    copy = backup.manifest.collections[name]
    digest = hashlib.sha256()
    batches = _batches(backup, entry, digest)
    while points := await asyncio.to_thread(next, batches, None):
        request = RestoreRequest(collection=name, copy=copy, points=points)
        await service.ask("restore", request, RestoreReply, timeout_s=_TIMEOUT_S)
        progress.advance(len(points))
    if digest.hexdigest() != entry.sha256:
        raise BackupError(f"{entry.path} was changed while it was read. Restore it again.")


def _batches(
    backup: Backup, entry: Entry, digest: hashlib._Hash
) -> Iterator[tuple[PointCopy, ...]]:
    batch: list[PointCopy] = []
    size_bytes = 0
    with backup.open(entry.path) as file:
        for line in file:
            digest.update(line)
            batch.append(decode(line, PointCopy))
            size_bytes += len(line)
            if size_bytes >= _REQUEST_BYTES or len(batch) >= _REQUEST_POINTS:
                yield tuple(batch)
                batch, size_bytes = [], 0
    if batch:
        yield tuple(batch)

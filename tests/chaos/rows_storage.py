"""Rows without a number: a full disk, and damaged files of one collection."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from searchbus_bus import Bus, connect
from searchbus_contracts import Actor, Fault
from searchbus_contracts.ingest import Chunk, IngestReply, IngestRequest, NewDocument, document_id
from searchbus_contracts.retrieval import ListReply, ListRequest
from searchbus_runtime import stack_options
from searchbus_testing import Stack, until

from .client import Client
from .fleet import READY_S, ROOT
from .scorecard import Measurement, at_least, at_most, left_out

OPERATOR = Actor(subject="chaos", roles=("*",))
SIZE_MIB = 256
"""Of the file system that is filled."""
DOCUMENTS = 40
_FULL = "a full disk"
_DAMAGED = "damaged files"


async def full_disk(folder: Path, *, short: bool) -> list[Measurement]:
    """The disk of a running stack fills up, a service is killed, the stack is started again."""
    folder.mkdir()
    async with small_file_system(folder) as disk:
        if disk is None:
            return [left_out(_FULL, "a stack on it", "this user cannot mount a file system")]
        stack = Stack(
            disk / "data", (), {"SEARCHBUS_EMBEDDER": "hash", "SEARCHBUS_MIN_FREE_MIB": "16"}, ROOT
        )
        try:
            return await _on_full_disk(stack, disk)
        finally:
            with suppress(OSError):
                (disk / "fill").unlink()
            await asyncio.to_thread(stack.stop)


async def _on_full_disk(stack: Stack, disk: Path) -> list[Measurement]:
    # Its log is beside the data folder: on the full disk the test itself could not write.
    await asyncio.to_thread(stack.start)
    stored = [await _store(stack, "fomc", f"d{number}") for number in range(DOCUMENTS)]
    acknowledged = stored.count("stored")
    fill(disk)
    refusals = [await _store(stack, "fomc", f"late{number}") for number in range(3)]
    failed = await _failed_reads(stack)
    before = stack.state["processes"]["retrieval"]
    os.kill(before, signal.SIGKILL)
    failed += await _failed_reads(stack, again=True)
    assert stack.process is not None
    ended = stack.process.poll() is not None
    await asyncio.to_thread(stack.stop)
    fill(disk)
    await asyncio.to_thread(stack.start)
    failed += await _failed_reads(stack, again=True)
    found = await _documents(stack, "fomc")
    refusals.append(await _store(stack, "fomc", "late"))
    (disk / "fill").unlink()
    after = await _store(stack, "fomc", "late")
    return [
        at_least(_FULL, "ingests refused with storage_full", refusals.count("storage_full"), 4),
        at_most(_FULL, "reads that failed, running, after kill -9, after a start", failed, 0),
        at_most(_FULL, "acknowledged documents lost", acknowledged - found, 0),
        at_most(_FULL, "`searchbus up` ended", int(ended), 0),
        at_least(
            _FULL, "documents are stored again when there is space", int(after == "stored"), 1
        ),
    ]


async def damaged(folder: Path, *, short: bool) -> list[Measurement]:
    """A file of one of two collections is damaged while the stack is down."""
    stack = Stack(folder / "data", (), {"SEARCHBUS_EMBEDDER": "hash"}, ROOT)
    try:
        await asyncio.to_thread(stack.start)
        for collection in ("fomc", "bad", "cut"):
            for number in range(DOCUMENTS):
                await _store(stack, collection, f"d{number}")
        await asyncio.to_thread(stack.stop)
        store = stack.data / "qdrant"
        next((store / "bad").glob("segments/*/segment.json")).write_text("not JSON")
        shutil.rmtree(store / "cut" / "wal")
        mapping = next((store / "cut").glob("segments/*/mutable_id_tracker.mappings"))
        os.truncate(mapping, mapping.stat().st_size // 2)
        await asyncio.to_thread(stack.start)
        failed = await _failed_reads(stack, again=True)
        refused = [await _store(stack, name, "late") for name in ("bad", "cut")]
        doctor = await asyncio.to_thread(stack.command, "doctor", "--json")
        named = {row["check"] for row in json.loads(doctor.stdout) if not row["ok"]}
    finally:
        await asyncio.to_thread(stack.stop)
    wanted = {"collection bad", "collection cut"}
    return [
        at_most(_DAMAGED, "reads of the sound collection that failed", failed, 0),
        at_least(_DAMAGED, "damaged collections that doctor names, of 2", len(named & wanted), 2),
        at_least(_DAMAGED, "documents refused rather than written over them",
                 refused.count("unavailable"), 2),
    ]  # fmt: skip


@asynccontextmanager
async def small_file_system(folder: Path) -> AsyncIterator[Path | None]:
    """A small file system of its own; None where this user cannot mount one."""
    disk, image = folder / "disk", folder / "image"
    disk.mkdir()
    image.touch()
    os.truncate(image, SIZE_MIB * 2**20)
    commands = [
        [["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, disk]],
        [["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "none", disk]],
    ]
    mounted = any(all(_succeeds(command) for command in way) for way in commands)
    try:
        yield disk if mounted else None
    finally:
        if mounted:
            await until(lambda: _succeeds(["umount", disk]), timeout_s=60)


def _succeeds(command: list[object]) -> bool:
    try:
        return subprocess.run([str(c) for c in command], capture_output=True).returncode == 0
    except OSError:
        return False


def fill(disk: Path) -> None:
    """Take what is free, as another program would."""
    with (disk / "fill").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 2**20)
    with (disk / "fill").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)


async def _bus(stack: Stack) -> Bus:
    return await connect(stack.state["nats_url"], name="chaos", **stack_options(stack.data))


async def _store(stack: Stack, collection: str, name: str) -> str:
    """The outcome of one document, or the code of the failure."""
    text = f"{name}: the Committee decided about whales. " * 20
    new = NewDocument(
        document_id=document_id(collection, name), title=name, text=text,
        chunks=(Chunk(start=0, end=len(text)),), metadata={"date": "2024-01-31"},
    )  # fmt: skip
    bus = await _bus(stack)
    try:
        reply = await bus.request(
            bus.subjects.endpoint("retrieval", "ingest"),
            IngestRequest(collection=collection, documents=(new,)), IngestReply,
            service="retrieval", timeout_s=60, actor=OPERATOR,
        )  # fmt: skip
        return str(reply.results[0].outcome)
    except Fault as fault:
        return str(fault.code)
    finally:
        await bus.close()


async def _documents(stack: Stack, collection: str) -> int:
    bus = await _bus(stack)
    try:
        reply = await bus.request(
            bus.subjects.endpoint("retrieval", "list"), ListRequest(collection=collection, limit=1000),
            ListReply, service="retrieval", timeout_s=60, actor=OPERATOR,
        )  # fmt: skip
        return len(reply.documents)
    finally:
        await bus.close()


async def _failed_reads(stack: Stack, *, again: bool = False) -> int:
    """Searches that fail, of ten; with `again` from when one succeeds, which must happen."""
    async with Client([int(stack.url.rpartition(":")[2])]) as client:

        async def read() -> bool:
            found = await client.call("search_fomc", {"query": "whales", "top_k": 3})
            return found.kind == "answer" and "whales" in found.text

        if again:
            try:
                await until(read, timeout_s=READY_S, interval_s=0.5)
            except AssertionError:
                return 10
        return [await read() for _ in range(10)].count(False)

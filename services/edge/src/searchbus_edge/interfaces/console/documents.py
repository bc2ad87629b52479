"""Collections and documents: lists, a document's text and passages, dropped files, deletions.

A dropped file is read by `searchbus ingest` in a process of its own, as any file from outside: this
process parses none. Where that command is not installed, the page names it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Query, Request
from msgspec import Meta, Struct

from searchbus_bus import Bus
from searchbus_contracts import Actor, ErrorCode, Fault, encode, is_token
from searchbus_contracts.ingest import DeleteReply, DeleteRequest
from searchbus_contracts.retrieval import Document, GetRequest, ListReply, ListRequest
from searchbus_runtime.files import write_atomically
from searchbus_runtime.python import python

from ...catalog.prompts import Read
from ...composites.documents import documents_request
from ...http.answer import INERT, PlainAnswer
from .access import API, Access, Visitor, audit

_TIMEOUT_S = 30.0
_INGEST_S = 300.0
_SHOWN_CHARS = 50_000
_PASSAGES = 20
"""Passages on one page."""
_AT_ONCE = 2
_FOLDER = "dropped"
"""Dropped files, by collection, in the data folder."""
_MAX_NAME_BYTES = 200
"""Limit of a file's name; file systems take 255, and a file that is written has a longer one."""
_MAX_NAME_CHARS = 100
"""How much of a refused name its message has."""
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069/\\\\]")
"""Separators of paths, controls, and marks that turn the direction of what stands around them."""
_KEPT_NAMES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SEARCHBUS_CONFIG")
"""Variables of the process that reads a file: it connects as an operator, not as an edge."""


class Deletion(Struct, frozen=True):
    """Delete documents of a collection; without ids the collection."""

    collection: str
    ids: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()


def add_documents(app: FastAPI, access: Access, bus: Bus, read: Read, data: Path | None) -> None:
    """Add the requests of this module; `data` is the folder for the command that reads files."""
    reading = asyncio.Semaphore(_AT_ONCE)

    async def ask(verb: str, message: Any, reply: type[Any], actor: Actor) -> PlainAnswer:
        asked = documents_request(bus, verb, message, reply, timeout_s=_TIMEOUT_S)
        found = await read(f"documents/{verb}", actor, asked, message)
        return PlainAnswer(encode(found), headers=INERT)

    @app.get(f"{API}/documents")
    async def documents(
        collection: Annotated[str, Query(max_length=64)] = "",
        cursor: Annotated[str, Query(max_length=1024)] = "",
        visitor: Visitor = Depends(access.visitor),
    ) -> PlainAnswer:
        _check(collection)
        wanted = ListRequest(collection=collection or None, cursor=cursor or None)
        return await ask("list", wanted, ListReply, visitor.actor)

    @app.get(f"{API}/document")
    async def document(
        collection: Annotated[str, Query(max_length=64)],
        id: Annotated[str, Query(min_length=1, max_length=512)],
        start: Annotated[int, Query(ge=0)] = 0,
        visitor: Visitor = Depends(access.visitor),
    ) -> PlainAnswer:
        _check(collection)
        wanted = GetRequest(
            document_id=id, collection=collection, start=start, end=start + _SHOWN_CHARS
        )
        return await ask("get", wanted, Document, visitor.actor)

    @app.get(f"{API}/passages")
    async def passages(
        collection: Annotated[str, Query(min_length=1, max_length=64)],
        id: Annotated[str, Query(min_length=1, max_length=512)],
        cursor: Annotated[str, Query(max_length=9)] = "",
        visitor: Visitor = Depends(access.visitor),
    ) -> PlainAnswer:
        _check(collection)
        wanted = ListRequest(
            collection=collection, document_id=id, cursor=cursor or None, limit=_PASSAGES
        )
        return await ask("list", wanted, ListReply, visitor.actor)

    @app.post(f"{API}/documents/delete")
    async def delete(request: Request, visitor: Visitor = Depends(access.manager)) -> PlainAnswer:
        wanted = await access.body(visitor, request, Deletion)
        _check(wanted.collection)
        message = DeleteRequest(collection=wanted.collection, document_ids=wanted.ids)
        found = await ask("delete", message, DeleteReply, visitor.actor)
        count = len(wanted.ids) or "all"
        audit.info("%s deleted %s documents of %s", visitor.actor.subject, count, wanted.collection)
        return found

    @app.post(f"{API}/documents/file")
    async def file(
        request: Request,
        collection: Annotated[str, Query(min_length=1, max_length=64)],
        name: Annotated[str, Query(min_length=1, max_length=4096)],
        visitor: Visitor = Depends(access.manager),
    ) -> PlainAnswer:
        _check(collection)
        kept_as = _file_name(name)
        body = await access.calls.file(visitor.received, request.receive)
        if data is None or importlib.util.find_spec("searchbus_ingest") is None:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                "This edge reads no files. Run searchbus ingest beside the stack.",
                retryable=False,
            )
        async with reading:
            found = await _ingest(body, kept_as, collection, data)
        audit.info("%s stored %s in %s", visitor.actor.subject, kept_as, collection)
        return PlainAnswer(encode(found), headers=INERT)


def _check(collection: str) -> None:
    """Refuse what cannot be a collection; raises Fault(invalid_argument)."""
    if collection and not is_token(collection):
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            "collection: Give 1 to 64 letters, digits, _ and -.",
        )


def _file_name(name: str) -> str:
    """The safe name of a dropped file, never an option; raises Fault(invalid_argument)."""
    why = ""
    if found := _FORBIDDEN.search(name):
        what = "a path" if found[0] in "/\\" else f"the character U+{ord(found[0]):04X}"
        why = f"its name has {what}"
    elif len(name.encode()) > _MAX_NAME_BYTES:
        why = f"its name is longer than {_MAX_NAME_BYTES} bytes"
    if why:
        # As an expression of Python: with numbers in the place of what cannot be seen.
        begin = f"{name[:_MAX_NAME_CHARS]!r}" + "…" * (len(name) > _MAX_NAME_CHARS)
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, f"{begin} is not stored: {why}. Give the file another name."
        )
    return "".join(c if c.isprintable() else "_" for c in name).lstrip(".-") or "file"


async def _ingest(body: bytes, name: str, collection: str, data: Path) -> dict[str, Any]:
    """The summary of the command; raises Fault."""
    # It is kept, so that the document's address leads to it, and the same content stays the same.
    path = data / _FOLDER / collection / name
    try:
        await asyncio.to_thread(_write, path, body)
    except OSError as error:
        raise Fault(
            ErrorCode.STORAGE_FULL,
            f"{path.parent} cannot be written ({error.strerror}). Free some space.",
            retryable=False,
        ) from None
    environment = {key: os.environ[key] for key in _KEPT_NAMES if key in os.environ}
    process = await asyncio.create_subprocess_exec(
        *python("-m", "searchbus_cli", "ingest", str(path), "--collection", collection,
                "--data", str(data), "--json"),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env=environment, cwd=data,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_INGEST_S):
            out, err = await process.communicate()
    except TimeoutError:
        raise Fault(
            ErrorCode.DEADLINE_EXCEEDED,
            f"{name} was not read within {_INGEST_S:g} s. Try again with searchbus ingest.",
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        return msgspec.json.decode(out, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        lines = err.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].removeprefix("error: ") if lines else f"exit code {process.returncode}"
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, f"{name} was not stored: {why} Correct that, and send it."
        ) from None


def _write(path: Path, body: bytes) -> None:
    """Write a file of the owner alone; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, body, mode=0o600)

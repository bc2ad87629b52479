"""One query over tools, documents and the web side by side, with what decided about each hit.

Each part is searched for the caller, within its limits; a part that fails says why, and the others
are shown. A person's judgements are kept as JSON Lines, in the form that `searchbus tools bench`
reads: `<data>/judgements/<part>/queries.jsonl`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Depends, FastAPI, Request
from mcp.shared.exceptions import MCPError
from msgspec import Meta, Struct
from msgspec.structs import asdict

from searchbus_bus import Bus
from searchbus_contracts import ErrorCode, Fault, decode, encode
from searchbus_contracts.retrieval import SearchReply, SearchRequest
from searchbus_runtime.files import locked, write_atomically

from ...catalog.prompts import Read
from ...catalog.view import View
from ...composites.documents import documents_request
from ...http.answer import INERT, PlainAnswer
from ...http.faults import HttpError, problem_of
from ...search.finder import Finder
from ..calls import failure_of
from .access import API, Access, Visitor

Part = Literal["tools", "documents", "web"]
_WEB_TOOL = "web_search"
_TIMEOUT_S = 20.0
_MAX_BYTES = 4 * 2**20
"""A file of judgements of this size takes no more."""
_Line = dict[str, Any]


class Question(Struct, frozen=True):
    """Search.

    Args:
        parts: that are asked.
        collections: of documents; empty: all.
        where: a filter on the metadata of documents, as JSON.
        per_document, relevant_only: as the tool has them.
    """

    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    parts: tuple[Part, ...] = ("tools", "documents", "web")
    collections: Annotated[tuple[str, ...], Meta(max_length=50)] = ()
    limit: Annotated[int, Meta(ge=1, le=20)] = 8
    where: dict[str, Any] | None = None
    per_document: bool = False
    relevant_only: bool = False


class Judgement(Struct, frozen=True):
    """Whether a hit (tool, passage, address) answers a query; None takes it back."""

    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    part: Part
    id: Annotated[str, Meta(min_length=1, max_length=2048)]
    relevant: bool | None


class Judged(Struct):
    """A line of the file of judgements."""

    text: str
    relevant: list[str] = []
    irrelevant: list[str] = []


def add_searching(
    app: FastAPI, access: Access, finder: Finder, bus: Bus, read: Read, data: Path | None
) -> None:
    """Add the requests of this module; judgements are kept in `data`."""

    async def tools(visitor: Visitor, asked: Question) -> _Line:
        view = access.calls.everything
        if not finder.offered():
            raise Fault(
                ErrorCode.UNAVAILABLE, "No tool index is running. Start one, and try again."
            )
        await finder.admit(visitor.actor)
        found = await finder.explain_tools(visitor.actor, view, asked.query)
        hits = []
        for one in found.considered if found is not None else ():
            listed = view.tool_of[one.toolset, one.name]
            title = listed.descriptor.title or ""
            hits.append({**msgspec.to_builtins(one), "id": listed.name, "title": title})
        return {"hits": hits, "texts": list(found.texts) if found is not None else []}

    async def documents(visitor: Visitor, asked: Question) -> _Line:
        wanted = SearchRequest(
            query=asked.query, collections=asked.collections, limit=asked.limit, explain=True,
            where=asked.where, per_document=asked.per_document, relevant_only=asked.relevant_only,
        )  # fmt: skip
        request = documents_request(bus, "search", wanted, SearchReply, timeout_s=_TIMEOUT_S)
        reply = await read("documents/search", visitor.actor, request, wanted)
        found: _Line = msgspec.to_builtins(reply)
        for hit in found["hits"]:
            hit["id"] = f"{hit['collection']}/{hit['document_id']}/{hit['chunk_id']}"
        return found

    async def web(visitor: Visitor, asked: Question) -> _Line:
        arguments = {"query": asked.query, "maxResults": min(asked.limit, 10), "explain": True}
        served = await access.calls.call(
            visitor.received, access.calls.everything, _WEB_TOOL, arguments, timeout_s=_TIMEOUT_S
        )
        value = served.reply.value or {}
        hits = [{**hit, "id": hit.get("url", "")} for hit in value.get("results", ())]
        return {"hits": hits, "meta": served.reply.meta}

    searches: dict[str, Callable[[Visitor, Question], Awaitable[_Line]]] = {
        "tools": tools, "documents": documents, "web": web,
    }  # fmt: skip

    @app.post(f"{API}/search")
    async def search(request: Request, visitor: Visitor = Depends(access.visitor)) -> PlainAnswer:
        asked = await access.body(visitor, request, Question)
        parts = tuple(dict.fromkeys(asked.parts))
        found = await asyncio.gather(*(_part(searches[part], visitor, asked) for part in parts))
        return PlainAnswer(encode(dict(zip(parts, found, strict=True))), headers=INERT)

    @app.post(f"{API}/judge")
    async def judge(request: Request, visitor: Visitor = Depends(access.manager)) -> PlainAnswer:
        wanted = await access.body(visitor, request, Judgement)
        if data is None:
            raise Fault(
                ErrorCode.UNAVAILABLE, "There is no data folder for judgements. Start the "
                "edge with SEARCHBUS_DATA_DIR.", retryable=False,
            )  # fmt: skip
        folder = data / "judgements" / wanted.part
        view = access.calls.everything if wanted.part == "tools" else None
        try:
            lines = await asyncio.to_thread(_judge, folder, wanted, view)
        except OSError as error:
            raise Fault(
                ErrorCode.STORAGE_FULL, f"{folder} cannot be written ({error.strerror}). Free some "
                "space.", retryable=False,
            ) from None  # fmt: skip
        return PlainAnswer(encode({"queries": lines, "folder": str(folder)}))


async def _part(
    search: Callable[[Visitor, Question], Awaitable[_Line]], visitor: Visitor, asked: Question
) -> _Line:
    try:
        return await search(visitor, asked)
    except (Fault, HttpError) as error:
        return {"problem": problem_of(error)}
    except MCPError as error:
        return {"problem": problem_of(failure_of(error, "tools/search"))}


def _judge(folder: Path, wanted: Judgement, view: View | None) -> int:
    """Write one judgement; returns how many queries have some. Raises OSError, Fault."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / "queries.jsonl"
    with locked(file):
        lines = _read(file)
        line = lines.setdefault(wanted.query, Judged(wanted.query))
        for ids, value in ((line.relevant, True), (line.irrelevant, False)):
            if wanted.id in ids:
                ids.remove(wanted.id)
            if wanted.relevant is value:
                ids.append(wanted.id)
        kept = [line for line in lines.values() if line.relevant or line.irrelevant]
        text = "".join(json.dumps(asdict(line), ensure_ascii=True) + "\n" for line in kept)
        if len(text) > _MAX_BYTES:
            raise Fault(
                ErrorCode.STORAGE_FULL, f"{file} is full. Put it elsewhere to begin another one.",
                retryable=False,
            )  # fmt: skip
        if view is not None:
            tools = (
                {
                    "id": name, "name": tool.descriptor.name, "server": tool.descriptor.toolset,
                    "description": tool.descriptor.description,
                    "inputSchema": tool.descriptor.input_schema,
                }
                for name, tool in view.tools.items()
            )  # fmt: skip
            listed = "".join(json.dumps(tool) + "\n" for tool in tools)
            write_atomically(folder / "tools.jsonl", listed, mode=0o600)
        write_atomically(file, text, mode=0o600)
    return len(kept)


def _read(file: Path) -> dict[str, Judged]:
    """Query → its line. Raises Fault where one cannot be read, which would be lost."""
    found: dict[str, Judged] = {}
    for number, line in enumerate(file.read_bytes().splitlines() if file.exists() else (), 1):
        try:
            one = decode(line, Judged)
        except Fault as fault:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"{file}:{number}: {fault.failure.message} Correct it, or move the file away.",
                retryable=False,
            ) from None
        found[one.text] = one
    return found

"""Attached servers: their state and tools, and what an operator changes (`attach.manage`)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from fastapi import Depends, FastAPI, Query, Request

from searchbus_bus import Bus, Directory
from searchbus_bus import Request as BusRequest
from searchbus_contracts import Actor, ErrorCode, Fault, encode
from searchbus_contracts.attach import ManageReply, ManageRequest, StatusReply, StatusRequest

from ...http.answer import INERT, PlainAnswer
from .access import API, Access, Visitor, audit

_ATTACH = "attach"
_FILE = "attach.toml"
_TIMEOUT_S = 15.0
_LOOKS, _LOOK_S = 150, 0.2
_LOOKING = ("diff", "log", "waiting", "view", "preview")
"""Actions that change nothing."""


def add_attached(
    app: FastAPI, access: Access, bus: Bus, directory: Directory, data: Path | None
) -> None:
    """Add the requests of this module; the first server makes the file of servers in `data`."""

    @app.get(f"{API}/attached")
    async def status(
        server: Annotated[str, Query(max_length=64)] = "",
        visitor: Visitor = Depends(access.seer),
    ) -> PlainAnswer:
        if not directory.present(_ATTACH):
            return PlainAnswer(encode(StatusReply()))
        found = await bus.request(
            bus.subjects.endpoint(_ATTACH, "status"), StatusRequest(server=server or None),
            StatusReply, service=_ATTACH, timeout_s=_TIMEOUT_S, actor=visitor.actor,
        )  # fmt: skip
        return PlainAnswer(encode(found), headers=INERT)

    @app.post(f"{API}/attached")
    async def manage(request: Request, visitor: Visitor = Depends(access.manager)) -> PlainAnswer:
        wanted = await access.body(visitor, request, ManageRequest)
        if wanted.action == "add" and not directory.present(_ATTACH):
            await _begin(directory, data)
        if wanted.action == "waiting" and not directory.present(_ATTACH):
            return PlainAnswer(encode(ManageReply()))
        found = await _manage(bus, directory, wanted, visitor.actor)
        changed = bool(found.done) or wanted.action == "save_view"
        if changed and wanted.action not in _LOOKING:
            names = ", ".join(dict.fromkeys((*wanted.servers, *found.done)))
            audit.info("%s: attached servers: %s: %s", visitor.actor.subject, wanted.action, names)
        return PlainAnswer(encode(found), headers=INERT)


async def _manage(
    bus: Bus, directory: Directory, wanted: ManageRequest, actor: Actor
) -> ManageReply:
    """Have the service do it; a restart is for each of its workers. Raises Fault."""
    request = BusRequest(
        bus.subjects.endpoint(_ATTACH, "manage"), wanted, ManageReply,
        service=_ATTACH, timeout_s=_TIMEOUT_S, actor=actor, idempotent=False,
    )  # fmt: skip
    if wanted.action != "restart":
        return await bus.send(request)
    instances = [identity for service, identity in directory.instances if service == _ATTACH]
    requests = [msgspec.structs.replace(request, instance=one) for one in instances]
    replies = await asyncio.gather(*map(bus.send, requests or [request]))
    return replies[0]


async def _begin(directory: Directory, data: Path | None) -> None:
    """Make the file of servers: a stack starts the service once it is there. Raises Fault."""
    if data is None:
        raise Fault(
            ErrorCode.UNAVAILABLE, "The service attach does not run. Start it beside the edge.",
            retryable=False,
        )  # fmt: skip
    try:
        (data / _FILE).touch(mode=0o600)
    except OSError as error:
        raise Fault(
            ErrorCode.UNAVAILABLE, f"{data / _FILE} cannot be made ({error.strerror}). Make the "
            "folder writable.", retryable=False,
        ) from None  # fmt: skip
    for _ in range(_LOOKS):
        if directory.present(_ATTACH):
            return
        await asyncio.sleep(_LOOK_S)
    raise Fault(
        ErrorCode.UNAVAILABLE, "The service attach did not start in time. Try again shortly."
    )

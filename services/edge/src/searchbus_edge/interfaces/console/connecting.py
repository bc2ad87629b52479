"""What a client needs to use this edge: its entry, a key, and what a key's roles see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request
from msgspec import Meta, Struct

from searchbus_contracts import Actor, ErrorCode, Fault, encode
from searchbus_runtime.client_entries import snippets, start_command

from ...auth.static_keys import MAX_DAYS, KeyFile
from ...http.answer import PlainAnswer
from ...http.faults import unknown_toolset
from ...settings import EdgeSettings
from .access import API, Access, Visitor, audit
from .catalogue import visible_tools, visible_toolsets

KEY = "YOUR_KEY"
"""Stands in a snippet for the key, where callers sign in."""
_DAY_S = 86_400
_MAX_SEEN = 500
_NO_STORE = ((b"cache-control", b"no-store"),)


class NewKey(Struct, frozen=True):
    """Make a key, valid for `days`; 0: for ever."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    roles: Annotated[tuple[Annotated[str, Meta(max_length=200)], ...], Meta(max_length=50)] = ()
    days: Annotated[int, Meta(ge=0, le=MAX_DAYS)] = 0


class KeyId(Struct, frozen=True):
    """Revoke a key."""

    id: str


class Roles(Struct, frozen=True):
    """Ask what a caller with these roles sees."""

    roles: Annotated[tuple[str, ...], Meta(max_length=100)] = ()


def add_connecting(app: FastAPI, access: Access, settings: EdgeSettings, base_url: str) -> None:
    """Add the requests of this module to the console's application."""

    @app.get(f"{API}/connect")
    async def connect(
        toolset: Annotated[str, Query(max_length=64)] = "",
        visitor: Visitor = Depends(access.visitor),
    ) -> PlainAnswer:
        if toolset and toolset not in visible_toolsets(access.calls.everything, visitor.actor):
            raise Fault(ErrorCode.NOT_FOUND, unknown_toolset(toolset))
        url = f"{base_url}/mcp/{toolset}" if toolset else f"{base_url}/mcp"
        command = None
        # A program of this machine starts the command; on others there is no such folder.
        if settings.data_dir is not None and settings.on_loopback:
            command = start_command(Path(settings.data_dir), toolset=toolset or None)
        key = KEY if access.signed_in else ""
        return PlainAnswer(encode({"url": url, "snippets": list(snippets(url, key, command))}))

    def key_file() -> KeyFile:
        if settings.mode != "static" or settings.key_file is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "This edge takes no static keys. Start it with SEARCHBUS_AUTH=static.",
            )
        return KeyFile(settings.key_file)

    @app.get(f"{API}/keys", dependencies=[Depends(access.seer)])
    async def keys() -> PlainAnswer:
        with _usable():
            found = [record.shown() for record in key_file().read()]
        return PlainAnswer(encode({"keys": found}), headers=_NO_STORE)

    @app.post(f"{API}/keys")
    async def make_key(request: Request, visitor: Visitor = Depends(access.manager)) -> PlainAnswer:
        wanted = await access.body(visitor, request, NewKey)
        missing = visitor.actor.missing([role for role in wanted.roles if role != "*"])
        if missing is not None or ("*" in wanted.roles and "*" not in visitor.actor.roles):
            raise Fault(ErrorCode.FORBIDDEN, f"You lack the role {missing or '*'}. Leave it out.")
        expires_s = int(time.time()) + wanted.days * _DAY_S if wanted.days else 0
        with _usable():
            key, record = key_file().add(wanted.name, wanted.roles, expires_s=expires_s)
        roles = ", ".join(record.roles) or "none"
        audit.info("%s made key:%s with the roles: %s", visitor.actor.subject, record.id, roles)
        found = {"key": key, "id": record.id, "roles": record.roles}
        return PlainAnswer(encode(found), headers=_NO_STORE)

    @app.post(f"{API}/keys/revoke")
    async def revoke(request: Request, visitor: Visitor = Depends(access.manager)) -> PlainAnswer:
        wanted = await access.body(visitor, request, KeyId)
        with _usable():
            revoked = key_file().revoke(wanted.id)
        if not revoked:
            raise Fault(ErrorCode.NOT_FOUND, "No key has this id any more. List the keys again.")
        audit.info("%s revoked key:%s", visitor.actor.subject, wanted.id)
        return PlainAnswer(encode({"revoked": wanted.id}))

    @app.post(f"{API}/seen")
    async def seen(request: Request, visitor: Visitor = Depends(access.seer)) -> PlainAnswer:
        wanted = await access.body(visitor, request, Roles)
        tools = visible_tools(access.calls.everything, Actor(subject="seen", roles=wanted.roles))
        found = [{"name": name, "toolset": toolset} for name, toolset in tools[:_MAX_SEEN]]
        return PlainAnswer(encode({"total": len(tools), "tools": found}))


@contextmanager
def _usable() -> Iterator[None]:
    """Raise Fault where the file of keys cannot be used."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise Fault(
            ErrorCode.UNAVAILABLE, f"The file of keys cannot be used: {error}", retryable=False
        ) from None

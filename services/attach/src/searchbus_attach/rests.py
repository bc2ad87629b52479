"""What of a result did not fit its budget, for its caller: a resource that is read page by page.

A caller has a few of them at a time, each for a quarter of an hour; a newer one takes the place of
the oldest. They are in the key-value store: any worker can read what another one kept.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets

import msgspec
from msgspec import Struct

from searchbus_bus import Bus, KeyValue
from searchbus_bus.store.keyvalue import write_over
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ResourceBody,
    ResourceReadReply,
    ResourceTemplate,
    TextContent,
    ToolReply,
    encode,
)
from searchbus_contracts.tools import ResourceLink

from .definitions.shaping import page_end
from .definitions.text import own_uri, wrapped_uri

TTL_S = 900.0
MAX_BYTES = 500 * 1024
"""The limit of one rest, below that of the store; what is behind is left out, with a word."""
SLOTS = 8
"""How many one caller has, at one server."""
_BUCKET = "attach-rests"
_BUCKET_BYTES = 64 * 2**20
_URI = re.compile(r"searchbus-rest:(?P<slot>[0-7])-(?P<token>[0-9a-f]{32})-(?P<start>\d{1,7})")
log = logging.getLogger("searchbus.attach")


class _Kept(Struct):
    token: str
    roles: tuple[str, ...]
    max_tokens: int
    text: str


class Rests:
    """The rests of all callers."""

    def __init__(self, store: KeyValue) -> None:
        self._store = store

    @classmethod
    async def over(cls, bus: Bus) -> Rests:
        """In the bucket that all workers of this bus share."""
        return cls(await bus.key_value(_BUCKET, ttl_s=TTL_S, max_bytes=_BUCKET_BYTES))

    async def add(
        self, reply: ToolReply, rest: str, *,
        actor: Actor, server: str, roles: tuple[str, ...], max_tokens: int,
    ) -> ToolReply:  # fmt: skip
        """The reply with a link to its rest, in pages of `max_tokens` for the tool's roles; with a
        word about it where it cannot be kept."""
        token = secrets.token_hex(16)
        text = rest.encode()[:MAX_BYTES].decode("utf-8", "ignore")
        if text != rest:
            text += "\n[Cut here. What follows was not kept: ask for less.]"
        kept = msgspec.msgpack.encode(_Kept(token, roles, max_tokens, text))
        try:
            slot = await self._next_slot(actor, server)
            await self._store.put(_key(actor, server, str(slot)), kept)
        except Fault as fault:
            log.warning("the rest of a result of %s could not be kept: %s", server, fault)
            note = TextContent(text="[Cut here. The rest could not be kept: ask for less.]")
            return msgspec.structs.replace(reply, content=(*reply.content, note))
        uri = wrapped_uri(server, f"searchbus-rest:{slot}-{token}-0")
        note = TextContent(text=f"[Cut here. Read the resource {uri} for the rest.]")
        link = ResourceLink(uri=uri, name="rest", mime_type="text/plain")
        return msgspec.structs.replace(reply, content=(*reply.content, note, link))

    async def read(self, actor: Actor, server: str, uri: str) -> ResourceReadReply | None:
        """A page of a rest; None where the address is not that of one. Raises Fault(not_found),
        also for that of another caller."""
        match = _URI.fullmatch(own_uri(server, uri) or "")
        if match is None:
            return None
        entry = await self._store.get(_key(actor, server, match["slot"]))
        kept = None if entry is None else msgspec.msgpack.decode(entry.value, type=_Kept)
        start = int(match["start"])
        if (
            kept is None
            or not secrets.compare_digest(kept.token, match["token"])
            or start >= len(kept.text)
            or not actor.holds(kept.roles)
        ):
            raise Fault(ErrorCode.NOT_FOUND, "There is no such rest any more. Use the tool again.")
        end = page_end(kept.text, start, kept.max_tokens)
        text = kept.text[start:end]
        if end < len(kept.text):
            following = wrapped_uri(server, f"searchbus-rest:{match['slot']}-{kept.token}-{end}")
            note = f"[Cut here. Read the resource {following} for the rest.]"
            text = f"{text.rstrip()}\n{note}"
        body = ResourceBody(uri=uri, mime_type="text/plain", text=text)
        return ResourceReadReply(contents=(body,))

    async def _next_slot(self, actor: Actor, server: str) -> int:
        """That of the caller's oldest rest: all workers count in the store."""
        key = _key(actor, server, "next")
        while True:
            entry = await self._store.get(key)
            slot = 0 if entry is None else int(entry.value)
            if await write_over(self._store, key, b"%d" % ((slot + 1) % SLOTS), entry) is not None:
                return slot


def rest_template(server: str) -> ResourceTemplate:
    """The addresses of rests; not listed, since only their callers know them."""
    return ResourceTemplate(
        uri_template=wrapped_uri(server, "searchbus-rest:{rest}"), name="rest", toolset=server,
        listed=False, untrusted=True,
    )  # fmt: skip


def _key(actor: Actor, server: str, name: str) -> str:
    return hashlib.sha256(encode([actor.subject, server, name])).hexdigest()[:40]

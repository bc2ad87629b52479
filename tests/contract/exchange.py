"""An edge and a worker that exchange messages: those of today, and recorded ones of an earlier version.

`library()` is the worker of today and `converse` the edge of today. `Recorded` sends the messages of
either of them as a file of proto/exchanges has them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Raw, Struct

from searchbus_bus import Bus, Call, Directory, MemoryBroker, Toolset, Worker, tool
from searchbus_bus.tasks import Background
from searchbus_bus.transport import Message
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Fault,
    ToolAnnotations,
    ToolCall,
    ToolReply,
)
from searchbus_contracts.headers import ACK
from searchbus_testing import until

MAX_PAYLOAD_BYTES = 8 * 1024 + 2000
"""Of the broker: bodies of more than 2,000 bytes come in parts."""
SERVICE = "library"
LARGE_CHARS = 5000
HANGS_S = 60.0
"""Only ends an exchange in which a message is missing."""
ACKNOWLEDGED_S = 0.3
"""A request that takes so long is acknowledged first."""
VOLATILE = frozenset({"id", "instance", "version", "started_ms", "catalog", "endpoints"})
"""Keys whose values differ from worker to worker."""


class Word(Struct, forbid_unknown_fields=True):
    """Arguments of every tool."""

    word: Annotated[str, msgspec.Meta(max_length=10_000)]


class Found(Struct):
    """What they return."""

    text: str


class Library(Toolset, name=SERVICE):
    """One tool for each form of a reply."""

    @tool(
        title="Look up",
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True),
        required_roles=("READER",),
    )
    async def look_up(self, call: Call, arguments: Word) -> Found:
        """Return the word, after a while."""
        await asyncio.sleep(ACKNOWLEDGED_S)
        return Found(f"{arguments.word} for {call.actor.subject}")

    @tool(title="Fail")
    async def fail(self, call: Call, arguments: Word) -> Found:
        """Fail."""
        raise Fault(ErrorCode.NOT_FOUND, "There is no such word. Take another.")

    @tool(title="Report")
    async def report(self, call: Call, arguments: Word) -> Found:
        """Send progress and a line first."""
        await call.progress(1, 2, "half")
        await call.log("info", {"at": "end"})
        return Found(arguments.word)

    @tool(title="Repeat")
    async def repeat(self, call: Call, arguments: Word) -> Found:
        """Return a large text."""
        return Found(arguments.word * LARGE_CHARS)

    @tool(title="Count")
    async def count(self, call: Call, arguments: Word) -> Found:
        """Count the characters of a large word."""
        return Found(str(len(arguments.word)))


def library() -> Worker:
    """The worker of today."""
    worker = Worker(SERVICE)
    worker.add(Library())
    return worker


async def converse(bus: Bus, directory: Directory) -> dict[str, Any]:
    """Find the worker and call each of its tools, as an edge of today does; what came back."""
    await until(lambda: directory.count(SERVICE) == 1 and directory.catalogs)
    (catalog,) = directory.catalogs
    found: dict[str, Any] = {"tools": sorted(listed.name for listed in catalog.tools)}
    (worker,) = await bus.workers()
    found["alive"] = await bus.ping(SERVICE, worker.instance, 60.0)
    events: list[tuple[str, object]] = []
    for name, word in (
        ("look_up", "whale"),
        ("fail", "whale"),
        ("report", "whale"),
        ("repeat", "w"),
        ("count", "w" * LARGE_CHARS),
    ):
        try:
            reply = await bus.request(
                bus.subjects.tool(SERVICE, name),
                ToolCall(tool=name, arguments=Raw(msgspec.json.encode({"word": word}))),
                ToolReply,
                service=SERVICE,
                timeout_s=600.0,
                actor=Actor(subject="ann", roles=("READER",)),
                on_event=lambda event: events.append((event.kind, event.data or event.message)),
            )
        except Fault as fault:
            found[name] = (fault.code, fault.failure.message)
        else:
            found[name] = (reply.structured or {}).get("text")
    return {**found, "events": events}


@dataclass
class Exchange:
    """A request of the edge and what follows on its reply subject, in order.

    Attributes:
        steps: (from the worker, message).
    """

    request: Message
    steps: list[tuple[bool, Message]] = field(default_factory=list)


class Recorded:
    """Plays one side of the exchanges in a file.

    Attributes:
        exchanges: by the subjects of their requests.
        events: that have no reply.
    """

    def __init__(self, broker: MemoryBroker, path: Path) -> None:
        self._transport = broker.connect(name="recorded").transport
        self._background = Background()
        self.exchanges: dict[str, Exchange] = {}
        self.events: list[Message] = []
        inboxes: dict[str, Exchange] = {}
        for one in json.loads(path.read_text()):
            message = Message(
                one["subject"],
                one.get("data", "").encode(),
                one.get("reply", ""),
                one.get("headers", {}),
            )
            inbox = message.subject.removesuffix(".part")
            if inbox in inboxes:
                exchange = inboxes[inbox]
                is_reply = inbox == exchange.request.reply
                exchange.steps.append((is_reply, message))
            elif message.reply:
                exchange = self.exchanges[message.subject] = Exchange(message)
            else:
                self.events.append(message)
                continue
            inboxes[message.reply] = exchange

    async def serve(self) -> None:
        """Play the worker."""
        for subject, exchange in self.exchanges.items():

            async def on_request(message: Message, exchange: Exchange = exchange) -> None:
                self._background.start(self._answer(exchange, message.reply))

            await self._transport.subscribe(subject, on_request)
        for event in self.events:
            await self._transport.publish(event.subject, event.data)

    async def ask(self, exchange: Exchange, names: dict[str, str]) -> list[Message]:
        """Play the edge in one exchange; the worker's messages, one for each of the recorded ones.

        Args:
            names: of the recorded worker → of the one that is asked.
        """
        inbox: asyncio.Queue[Message] = asyncio.Queue()
        reply, subject = exchange.request.reply, exchange.request.subject
        subscriptions = [
            await self._transport.subscribe(one, inbox.put) for one in (reply, f"{reply}.>")
        ]
        for old, new in names.items():
            subject = subject.replace(old, new)
        await self._send(exchange.request, subject)
        came: list[Message] = []
        back = ""
        for from_worker, message in exchange.steps:
            if not from_worker:
                await self._send(message, back)
                continue
            async with asyncio.timeout(HANGS_S):
                one = await inbox.get()
                while ACK in one.headers and ACK not in message.headers:  # a busy machine
                    one = await inbox.get()
            came.append(one)
            back = one.reply or back
        for subscription in subscriptions:
            await subscription.unsubscribe()
        return came

    async def _answer(self, exchange: Exchange, reply: str) -> None:
        for from_worker, message in exchange.steps:
            if not from_worker:
                continue
            arrived = asyncio.Event()

            async def on_answer(_: Message, arrived: asyncio.Event = arrived) -> None:
                arrived.set()

            if message.reply:
                await self._transport.subscribe(message.reply, on_answer)
            await self._send(message, message.subject.replace(exchange.request.reply, reply))
            if message.reply:
                await arrived.wait()

    async def _send(self, message: Message, subject: str) -> None:
        await self._transport.publish(
            subject, message.data, reply=message.reply, headers=dict(message.headers)
        )


def covers(now: Any, frozen: Any, volatile: Collection[str] = ()) -> bool:
    """Whether JSON of today has every value of frozen JSON.

    Args:
        volatile: keys of which only the presence counts.
    """
    if isinstance(frozen, dict):
        return isinstance(now, dict) and all(
            key in now if key in volatile else covers(now.get(key), value, volatile)
            for key, value in frozen.items()
            if value is not None
        )
    if isinstance(frozen, list):
        return len(now) == len(frozen) and all(
            covers(one, other, volatile) for one, other in zip(now, frozen, strict=True)
        )
    return bool(now == frozen or (now is None and not frozen))

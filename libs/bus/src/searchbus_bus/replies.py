"""What a worker sends back: a reply (in parts where it is large), a failure, events."""

from __future__ import annotations

import asyncio
import hashlib
import logging

from searchbus_contracts import Failure, Fault, ToolEvent, encode
from searchbus_contracts.headers import ACK, CHUNK, CREDIT, ERROR_CODE, ERROR_TEXT, EVENT, SIZE
from searchbus_contracts.subjects import PART

from .inbox import Inbox
from .parts import ChunkMark, Credit, part_size_bytes, split
from .transport import Message, Transport

__all__ = ["Replies"]

log = logging.getLogger("searchbus.bus")


class Replies:
    """Sends to the reply subject of a request; a failed send is only logged.

    Args:
        inbox: receives the credit of those who receive large replies.
    """

    def __init__(self, transport: Transport, inbox: Inbox) -> None:
        self._transport = transport
        self._inbox = inbox

    async def reply(self, message: Message, body: bytes) -> None:
        """Send the reply to a request; a large one, as fast as its receiver allows."""
        try:
            size_bytes = part_size_bytes(self._transport.max_payload_bytes)
            if len(body) <= size_bytes:
                await self._transport.publish(message.reply, body)
                return
            credit = Credit()
            async with self._inbox.receive(PART, credit.take) as subject:
                if CREDIT in message.headers:
                    announced = {SIZE: str(len(body))}
                    await self._transport.publish(
                        message.reply, b"", reply=subject, headers=announced
                    )
                else:  # a receiver of an earlier release, which takes all parts at once
                    credit.allow_all()
                await self._send_parts(message, body, size_bytes, credit)
        except Fault:
            log.warning("a reply on %s could not be sent", message.subject)

    async def _send_parts(
        self, message: Message, body: bytes, size_bytes: int, credit: Credit
    ) -> None:
        if not await credit.covers(0):
            return
        parts = split(body, size_bytes)
        digest = (await asyncio.to_thread(hashlib.sha256, body)).hexdigest()
        for index, part in enumerate(parts):
            if not await credit.covers(index):
                log.debug("the receiver of a large reply does not want it any more")
                return
            mark = ChunkMark(index, len(parts), len(body), digest)
            await self._transport.publish(message.reply, bytes(part), headers={CHUNK: str(mark)})

    async def fail(self, message: Message, failure: Failure) -> None:
        """Send a failure instead of a reply."""
        headers = {ERROR_CODE: failure.code, ERROR_TEXT: _one_line(failure.message)}
        try:
            await self._transport.publish(message.reply, encode(failure), headers=headers)
        except Fault:
            log.warning("a failure on %s could not be sent", message.subject)

    async def acknowledge(self, message: Message, instance: str) -> None:
        """Name the instance that has a request whose reply takes long."""
        try:
            await self._transport.publish(message.reply, b"", headers={ACK: instance})
        except Fault:
            log.debug("an acknowledgement could not be sent")

    async def event(self, message: Message, event: ToolEvent) -> None:
        """Send progress or a log line before the reply."""
        try:
            await self._transport.publish(message.reply, encode(event), headers={EVENT: event.kind})
        except Fault:
            log.debug("a progress event could not be sent")


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode("ascii", "replace").decode()[:512]

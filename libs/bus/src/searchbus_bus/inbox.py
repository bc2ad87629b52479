"""The replies of one connection: one subscription, a token for every attempt that waits.

An attempt publishes to a subject with the reply subject `<inbox>.<replier>.<token>`. What comes
back on it is an event, a part of a large reply, a failure, or the reply. The worker fetches the
parts of a large request from `<inbox>.<replier>.<token>.part`. On a secured bus only the replier
may publish there, and nobody can guess the token of a request that went to another.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from searchbus_contracts import (
    ErrorCode,
    Fault,
    Parts,
    encode,
)
from searchbus_contracts.headers import PARTS
from searchbus_contracts.subjects import INBOX, part_subject

from .deadline import Deadline
from .ids import RandomIds
from .parts import part_size_bytes, split
from .pending import Failed, OnSilence, Pending, read_reply
from .request import OnEvent
from .tasks import TimeLimit
from .transit import Transit, TransitBudget
from .transport import Message, Transport

__all__ = ["Inbox", "Question"]

log = logging.getLogger("searchbus.bus")

SILENT_S = 1.0
"""An attempt without a reply for this time is watched: its worker may be gone."""
_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Question:
    """Asked of every subscriber of a subject.

    Args:
        replier: who replies; see `Inbox.attempt`.
        enough: the number of replies after which no more are expected.
    """

    subject: str
    replier: str
    enough: int | None = None


class Inbox:
    """Sends single attempts over a transport and matches what comes back. See `Requester`.

    Attributes:
        budget: of large replies.
    """

    def __init__(self, transport: Transport) -> None:
        self.budget = TransitBudget()
        self._transport = transport
        self._subject = transport.new_inbox()
        self._tokens = RandomIds()
        self._pending: dict[str, Pending] = {}
        self._collectors: dict[str, Callable[[Message], None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._opened = False
        self._opening = asyncio.Lock()
        self._look: asyncio.TimerHandle | None = None
        transport.on_disconnect(self._connection_lost)

    @property
    def in_flight(self) -> int:
        """How many attempts wait for a reply."""
        return len(self._pending)

    async def attempt(
        self,
        subject: str,
        body: bytes,
        *,
        replier: str,
        headers: dict[str, str],
        deadline: Deadline,
        on_event: OnEvent | None = None,
        on_silence: OnSilence | None = None,
        caller: str = "",
    ) -> bytes | Failed:
        """Publish a request once and wait for its reply; never raises a Fault.

        Args:
            replier: the service that replies; see searchbus_contracts.subjects.
            on_silence: runs beside an attempt that waits for long, and may end it.
            caller: whose limit a large reply counts against.
        """
        if not self._opened:
            await self._open()
        token = f"{replier}.{self._tokens.next()}"
        reply_to = f"{self._subject}.{token}"
        loop = asyncio.get_running_loop()
        transit = Transit.current()
        if transit is not None and transit.caller:
            caller = transit.caller
        pending = Pending(loop.create_future(), on_event, on_silence, loop.time(), caller=caller)
        if self._look is None:
            self._look = loop.call_later(_LOOK_EVERY_S, self._look_for_silence)
        size_bytes = part_size_bytes(self._transport.max_payload_bytes)
        if len(body) > size_bytes:
            pending.request_parts = split(body, size_bytes)
            headers = headers | _parts_header(reply_to, body, len(pending.request_parts))
            body = b""
        self._pending[token] = pending
        try:
            with TimeLimit(deadline.remaining_s):
                await self._transport.publish(subject, body, reply=reply_to, headers=headers)
                return await pending.outcome
        except TimeoutError:
            return Failed(
                Fault(
                    ErrorCode.DEADLINE_EXCEEDED, "The deadline passed. Try again with more time."
                ),
                "timeout",
            )
        except Fault as fault:
            return Failed(fault)
        finally:
            del self._pending[token]
            if pending.watch is not None:
                pending.watch.cancel()
            if pending.assembly is not None or pending.credit_subject:
                self._end_transfer(pending, transit)

    @asynccontextmanager
    async def receive(
        self, replier: str, on_message: Callable[[Message], None]
    ) -> AsyncIterator[str]:
        """Call back for each message to a subject of its own, which is the context's value.

        Args:
            replier: who may publish there; see `attempt`.
        """
        if not self._opened:
            await self._open()
        token = f"{replier}.{self._tokens.next()}"
        self._collectors[token] = on_message
        try:
            yield f"{self._subject}.{token}"
        finally:
            del self._collectors[token]

    async def collect(
        self, questions: Sequence[Question], *, quiet_s: float, most_s: float
    ) -> list[list[bytes]]:
        """Ask everyone; the replies to each question, until none came for `quiet_s`.

        Args:
            most_s: the longest wait, also while replies still come.

        Raises:
            Fault: unavailable, without a connection.
        """
        if not self._opened:
            await self._open()
        loop = asyncio.get_running_loop()
        replies: list[list[bytes]] = [[] for _ in questions]
        open_questions = set(range(len(questions)))
        complete = asyncio.Event()
        last_s, arrived = loop.time(), 0

        def on_reply(place: int, message: Message) -> None:
            nonlocal last_s, arrived
            last_s, arrived = loop.time(), arrived + 1
            if not message.no_responders:
                replies[place].append(message.data)
            if message.no_responders or len(replies[place]) == questions[place].enough:
                open_questions.discard(place)
                if not open_questions:
                    complete.set()

        tokens = [f"{question.replier}.{self._tokens.next()}" for question in questions]
        for place, token in enumerate(tokens):
            self._collectors[token] = partial(on_reply, place)
        try:
            for question, token in zip(questions, tokens, strict=True):
                reply_to = f"{self._subject}.{token}"
                await self._transport.publish(question.subject, b"", reply=reply_to)
            give_up_s = loop.time() + most_s
            while open_questions and (now_s := loop.time()) < give_up_s:
                before = arrived
                wait_s = max(0.0, min(last_s + quiet_s, give_up_s) - now_s)
                await self._transport.replies_arrived(wait_s, complete)
                if arrived == before and open_questions:
                    # After a busy moment of this process, replies may still be in the socket.
                    await self._transport.flush()
                    if arrived == before:
                        break
        finally:
            for token in tokens:
                del self._collectors[token]
        return replies

    async def _open(self) -> None:
        async with self._opening:
            if not self._opened:
                await self._transport.subscribe_directly(f"{self._subject}.>", self._on_message)
                self._opened = True

    def _look_for_silence(self) -> None:
        """Watch the attempts that have waited for long: one timer for all, in their order."""
        loop = asyncio.get_running_loop()
        for pending in self._pending.values():
            if loop.time() - pending.since_s < SILENT_S:
                break
            if pending.watch is None and pending.on_silence is not None:
                pending.watch = loop.create_task(pending.on_silence(pending))
        again = bool(self._pending)
        self._look = loop.call_later(_LOOK_EVERY_S, self._look_for_silence) if again else None

    def _connection_lost(self) -> None:
        for pending in self._pending.values():
            fault = Fault(
                ErrorCode.UNAVAILABLE,
                "The connection to the message bus was lost while the request ran. Try again.",
            )
            pending.end(Failed(fault, "connection_lost"))

    def _on_message(self, message: Message) -> None:
        token = message.subject[len(self._subject) + 1 :]
        pending = self._pending.get(token)
        if pending is None:
            self._on_other(token, message)
        elif not pending.outcome.done():
            outcome = read_reply(pending, message, self.budget)
            if outcome is not None:
                pending.end(outcome)
            elif parts := pending.credit():
                self._give_credit(pending, parts)

    def _on_other(self, token: str, message: Message) -> None:
        """Take the reply to a question, credit, or a request for a part of a large request."""
        collector = self._collectors.get(token)
        if collector is not None:
            collector(message)
            return
        pending = self._pending.get(token.rpartition(".")[0])
        if pending is not None and not pending.outcome.done():
            self._spawn(self._send_part(pending, message))

    def _end_transfer(self, pending: Pending, transit: Transit | None) -> None:
        """Give back what a large reply reserved, and end its sender where it is not complete."""
        outcome = pending.outcome
        complete = (
            outcome.done() and not outcome.cancelled() and isinstance(outcome.result(), bytes)
        )
        if pending.reservation is not None:
            if complete and transit is not None:
                transit.keep(pending.reservation)
            else:
                pending.reservation.release()
        if not complete and pending.credit_subject:
            self._give_credit(pending, 0)

    def _give_credit(self, pending: Pending, parts: int) -> None:
        """Allow the sender of a large reply to send so many parts in all; 0 ends the transfer."""

        async def publish() -> None:
            try:
                await self._transport.publish(pending.credit_subject, b"%d" % parts)
            except Fault:
                log.debug("the credit of a large reply could not be sent")

        self._spawn(publish())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_part(self, pending: Pending, message: Message) -> None:
        digits = message.data[:8]
        index = int(digits) if digits.isdigit() else -1
        is_ours = message.reply.startswith(INBOX)  # published with this process's permissions
        if not is_ours or not 0 <= index < len(pending.request_parts):
            return
        try:
            await self._transport.publish(message.reply, bytes(pending.request_parts[index]))
        except Fault:
            log.debug("a part of a request could not be sent")


def _parts_header(reply_to: str, body: bytes, count: int) -> dict[str, str]:
    parts = Parts(
        subject=part_subject(reply_to),
        count=count,
        size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
    )
    return {PARTS: encode(parts).decode()}

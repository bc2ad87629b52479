"""The replies of one connection: one subscription, a token for every attempt that waits.

An attempt publishes to a subject with the reply subject `<inbox>.<replier>.<token>`. What comes
back on it is an event, an acknowledgement, a part of a large reply, a failure, or the reply. The
worker fetches the parts of a large request from `<inbox>.<replier>.<token>.part`. On a secured bus
only the replier may publish there, and nobody can guess the token of a request to another one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from searchbus_contracts import ErrorCode, Fault, Parts, encode
from searchbus_contracts.headers import PARTS, SIZE
from searchbus_contracts.subjects import INBOX, is_credit_subject, part_subject

from ..tasks import Background, has_arrived
from ..transport import Message, Transport, publish_or_log
from .parts import part_size_bytes, split
from .reply import Cause, FailedAttempt, OnSilence, Pending, read_reply
from .request import Deadline, OnEvent
from .transit import Transit, TransitBudget, TransitFullError

log = logging.getLogger("searchbus.bus")

SILENT_S = 1.0
"""An attempt without a reply for this time is watched: its worker may be gone."""
_LOOK_EVERY_S = 0.25


_ids: list[str] = []


def random_id() -> str:
    """128 random bits as hex; random bytes are fetched for many ids at once."""
    if not _ids:
        digits = os.urandom(16 * 256).hex()
        _ids.extend(digits[start : start + 32] for start in range(0, len(digits), 32))
    return _ids.pop()


@dataclass(frozen=True, slots=True)
class InboxQuestion:
    """Asked of every subscriber of a subject, until `enough` replied; `replier`: see `attempt`."""

    subject: str
    replier: str
    enough: int | None = None
    headers: Mapping[str, str] | None = None


class Inbox:
    """Sends single attempts over a transport and matches what comes back. See `Requester`."""

    def __init__(self, transport: Transport) -> None:
        self.budget = TransitBudget()
        self._transport = transport
        self._subject = transport.new_inbox()
        self._pending: dict[str, Pending] = {}
        self._receivers: dict[str, Callable[[Message], None]] = {}
        self._background = Background()
        self._opened = self._stopped = False
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
        kind: str = "",
    ) -> bytes | FailedAttempt:
        """Publish a request once and wait for its reply; never raises a Fault.

        Args:
            replier: the service that replies; see searchbus_contracts.subjects.
            on_silence: runs beside an attempt that waits for long, and may end it.
            caller: whose limit a large reply counts against.
            kind: of requests whose replies have a usual size; where replies are passed on
                (`Transit`), as many are sent at once as fit.
        """
        if not self._opened:
            await self._open()
        token = f"{replier}.{random_id()}"
        reply_to = f"{self._subject}.{token}"
        loop = asyncio.get_running_loop()
        transit = Transit.current()
        if transit is not None and transit.caller:
            caller = transit.caller
        try:
            expected = (
                None
                if transit is None
                else await self.budget.expect(caller, kind, wait_s=deadline.remaining_s)
            )
        except TransitFullError as full:
            return FailedAttempt(full)
        pending = Pending(loop.create_future(), on_event, on_silence, loop.time(), caller, expected)
        if self._look is None:
            self._look = loop.call_later(_LOOK_EVERY_S, self._look_for_silence)
        size_bytes = part_size_bytes(self._transport.max_payload_bytes)
        if len(body) > size_bytes:
            pending.request_parts = split(body, size_bytes)
            parts = Parts(
                subject=part_subject(reply_to),
                count=len(pending.request_parts),
                size_bytes=len(body),
                sha256=hashlib.sha256(body).hexdigest(),
            )
            headers = headers | {PARTS: encode(parts).decode()}
            body = b""
        self._pending[token] = pending
        if self._stopped:
            pending.end(_stopping("refused"))
        try:
            async with asyncio.timeout(deadline.remaining_s):
                if not pending.ended:
                    await self._transport.publish(subject, body, reply=reply_to, headers=headers)
                return await pending.outcome
        except TimeoutError:
            pending.wait_again()
            if await has_arrived(pending.outcome):
                return pending.outcome.result()
            fault = Fault(
                ErrorCode.DEADLINE_EXCEEDED, "The deadline passed. Try again with more time."
            )
            return FailedAttempt(fault, "timeout")
        except Fault as fault:
            return FailedAttempt(fault)
        finally:
            del self._pending[token]
            reply = pending.outcome.result() if pending.ended else None
            if expected is not None:
                expected.release()
            if transit is not None and isinstance(reply, bytes):
                self.budget.note(kind, len(reply))
            if pending.watch is not None:
                pending.watch.cancel()
            if (large := pending.large) is not None:
                complete = isinstance(reply, bytes)
                large.end(keep_in=transit if complete else None)
                if not complete and large.credit_subject:  # its sender holds it in memory
                    self._publish(large.credit_subject, b"0")

    def stop(self) -> None:
        """End every attempt, and later ones before they are sent, since the process stops."""
        self._stopped = True
        for pending in self._pending.values():
            pending.end(_stopping("stopping"))

    @asynccontextmanager
    async def receive(
        self, replier: str, on_message: Callable[[Message], None]
    ) -> AsyncIterator[str]:
        """Call back for messages of `replier` to a subject of its own, the context's value."""
        if not self._opened:
            await self._open()
        token = f"{replier}.{random_id()}"
        self._receivers[token] = on_message
        try:
            yield f"{self._subject}.{token}"
        finally:
            del self._receivers[token]

    async def collect(
        self, questions: Sequence[InboxQuestion], *, quiet_s: float, most_s: float
    ) -> list[list[bytes]]:
        """Ask everyone; the replies to each question, until none came for `quiet_s`, for
        `most_s` at most. Raises Fault(unavailable) without a connection."""
        loop = asyncio.get_running_loop()
        replies: list[list[bytes]] = [[] for _ in questions]
        open_questions = set(range(len(questions)))
        complete = asyncio.Event()
        last_s, received = loop.time(), 0

        def on_reply(place: int, message: Message) -> None:
            nonlocal last_s, received
            last_s, received = loop.time(), received + 1
            if not message.no_responders:
                replies[place].append(message.data)
            if message.no_responders or len(replies[place]) == questions[place].enough:
                open_questions.discard(place)
                if not open_questions:
                    complete.set()

        async with AsyncExitStack() as stack:
            for place, question in enumerate(questions):
                reply_to = await stack.enter_async_context(
                    self.receive(question.replier, partial(on_reply, place))
                )
                headers = dict(question.headers) if question.headers else None
                await self._transport.publish(
                    question.subject, b"", reply=reply_to, headers=headers
                )
            give_up_s = loop.time() + most_s
            while open_questions and (now_s := loop.time()) < give_up_s:
                before = received
                wait_s = max(0.0, min(last_s + quiet_s, give_up_s) - now_s)
                await self._transport.replies_arrived(wait_s, complete)
                if received == before and open_questions:
                    # After a busy moment of this process, replies may still be in the socket.
                    await self._transport.flush()
                    if received == before:
                        break
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
            pending.end(FailedAttempt(fault, "connection_lost"))

    def _on_message(self, message: Message) -> None:
        token = message.subject[len(self._subject) + 1 :]
        pending = self._pending.get(token)
        if pending is None:
            self._on_other(token, message)
        elif pending.ended:
            self._refuse(message)
        else:
            outcome = read_reply(pending, message, self.budget)
            if outcome is not None:
                pending.end(outcome)
            elif pending.large is not None and (parts := pending.large.new_credit()):
                self._publish(pending.large.credit_subject, b"%d" % parts)

    def _on_other(self, token: str, message: Message) -> None:
        """Take the reply to a question, credit, or a request for a part of a large request."""
        receiver = self._receivers.get(token)
        if receiver is not None:
            receiver(message)
            return
        pending = self._pending.get(token.rpartition(".")[0])
        if pending is None or pending.ended:
            self._refuse(message)
            return
        digits = message.data[:8]
        index = int(digits) if digits.isdigit() else -1
        is_ours = message.reply.startswith(INBOX)  # published with this process's permissions
        if is_ours and 0 <= index < len(pending.request_parts):
            self._publish(message.reply, bytes(pending.request_parts[index]))

    def _refuse(self, message: Message) -> None:
        """End the sender of a large reply that nobody awaits: it would hold it to the deadline."""
        if SIZE in message.headers and is_credit_subject(message.reply):
            self._publish(message.reply, b"0")

    def _publish(self, subject: str, data: bytes) -> None:
        """Send credit or a part of a large request; nobody waits for it."""
        self._background.start(
            publish_or_log(self._transport, subject, data, "a message about a large body")
        )


def _stopping(cause: Cause) -> FailedAttempt:
    return FailedAttempt(Fault(ErrorCode.UNAVAILABLE, "The server stops. Try again."), cause)

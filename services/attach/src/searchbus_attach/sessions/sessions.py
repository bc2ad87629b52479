"""Does each call of a server that keeps state where its caller's session is, here or elsewhere.

reply = await sessions.do(call, here, onward)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from searchbus_bus import Call, InstanceGoneError
from searchbus_contracts import ErrorCode, Fault

from ..metrics import measured_call
from ..upstream.upstream import Upstream
from .callers import Callers
from .handover import Handover, Onward

__all__ = ["Sessions"]

T = TypeVar("T")

_ROUNDS = 3
"""Of looking for the session; more only where workers end one after the other."""
_LOOK_AGAIN_S = 0.2
"""While a worker that stops ends its last calls."""


class Sessions:
    """The sessions of one server.

    Args:
        callers: those of this worker.
    """

    def __init__(self, server: str, callers: Callers, handover: Handover) -> None:
        self.callers = callers
        self._server = server
        self._handover = handover

    async def do(
        self, call: Call, here: Callable[[Upstream], Awaitable[T]], onward: Onward[T]
    ) -> T:
        """Do a call.

        Args:
            here: does it with a connection of this worker.
            onward: how it is sent to another worker.

        Raises:
            Fault: unavailable where the session moves, overloaded, or the failure of the call.
        """
        caller = call.actor.subject
        rounds = 0
        while rounds < _ROUNDS:
            with measured_call(self._server, failures_only=True):
                place = await self.callers.of(caller)
            if isinstance(place, Upstream):
                return await here(place)
            if call.instance_only:
                break  # it was sent on once: two workers could send it to each other for ever
            try:
                return await self._handover.send(call, onward, place.instance)
            except InstanceGoneError as gone:
                if not gone.received and await self._handover.is_leaving(call, place.instance):
                    await asyncio.sleep(_LOOK_AGAIN_S)  # its lease is free after its last call
                    continue
                rounds += 1
                await self.callers.take_over(caller, place)
                if gone.received and not onward.may_repeat:
                    raise Fault(
                        ErrorCode.UNAVAILABLE,
                        f"The worker with the session of {self._server} ended during the call, "
                        "which may have been done. Look before you repeat it.",
                        retryable=False,
                    ) from None
        raise Fault(
            ErrorCode.UNAVAILABLE,
            f"The session of {self._server} moves to another worker. Try again.",
        )

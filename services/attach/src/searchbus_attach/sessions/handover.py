"""A call for a caller whose session another worker has: it is sent on to that worker.

    reply = await handover.send(call, Onward("tool", "browser", "open", request, ToolReply), holder)

The bus passes the caller on with its signature, once: the other worker cannot send it any further.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from searchbus_bus import Bus, Call, Request
from searchbus_bus.client.fleet import State
from searchbus_contracts import Actor, Fault, ToolEvent

from ..metrics import count_handover

__all__ = ["Handover", "Onward"]

T = TypeVar("T")
_MARGIN_S = 0.1
"""Of the caller's time, so that it gets this worker's failure where the other one is silent."""
_LEAST_S = 0.001
_NOBODY = Actor()


@dataclass(frozen=True, slots=True)
class Onward(Generic[T]):
    """A call as it is sent on.

    Args:
        name: of the tool, or the verb.
        may_repeat: whether it can be done again where it may have been done.
    """

    family: Literal["tool", "resource", "prompt"]
    server: str
    name: str
    message: Any
    reply_type: type[T]
    may_repeat: bool = True


class Handover:
    """Sends calls on over the bus."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def send(self, call: Call, onward: Onward[T], instance: str) -> T:
        """Let another worker do a call; its progress and its log lines are passed on.

        Raises:
            InstanceGoneError: that worker has left the bus.
            Fault: the failure of the call.
        """
        events: asyncio.Queue[ToolEvent | None] = asyncio.Queue()
        relaying = asyncio.get_running_loop().create_task(_relay(call, events))
        code = "cancelled"
        try:
            reply = await self._bus.send(
                Request(
                    self._subject(onward),
                    onward.message,
                    onward.reply_type,
                    service=call.service,
                    timeout_s=max(_LEAST_S, call.remaining_s - _MARGIN_S),
                    # A caller without a name came without a signature.
                    actor=None if call.actor == _NOBODY else call.actor,
                    on_event=events.put_nowait,
                    idempotent=onward.may_repeat,
                    instance=instance,
                    instance_only=True,
                )
            )
            code = "ok"
            return reply
        except Fault as fault:
            code = fault.code
            raise
        finally:
            count_handover(onward.server, code)
            events.put_nowait(None)
            await relaying

    async def is_leaving(self, call: Call, instance: str) -> bool:
        """Whether a worker that takes no more requests still ends those that it has."""
        return await self._bus.fleet.check(call.service, instance) is State.ALIVE

    def _subject(self, onward: Onward[Any]) -> str:
        subjects = self._bus.subjects
        build = {"tool": subjects.tool, "resource": subjects.resource, "prompt": subjects.prompt}
        return build[onward.family](onward.server, onward.name)


async def _relay(call: Call, events: asyncio.Queue[ToolEvent | None]) -> None:
    """Pass on events in their order, before the reply."""
    while (event := await events.get()) is not None:
        await call.relay(event)

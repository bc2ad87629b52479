"""What this process notices of the instances of each service: which answer, and which do not.

Instances come from discovery (`follow`) and from acknowledgements (`heard`). One that leaves a ping
unanswered is avoided until it answers again; one whose ping has no responders is gone.

A worker that has not replied after `ACK_AFTER_MS` acknowledges the request with its instance id. A
request that has been silent for a second is watched, so that a lost one ends before its deadline:

| acknowledged | the ping | then |
| --- | --- | --- |
| by an instance | it answers | wait |
| | no responders, twice | the request is lost |
| | no answer, twice | ask another instance, if the request may be repeated |
| by none | some instance does not answer, twice, or is gone | the same |
| | all answer | the request is lost: whoever has it acknowledges it before it answers |

A worker that is only busy answers the second ping. To do its work elsewhere too would make all of
them busier: of 200 large answers on a busy machine, 441 were made.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import Enum

from searchbus_contracts import ErrorCode, Fault

from ..tasks import Background, end_task
from .reply import FailedAttempt, Pending

log = logging.getLogger("searchbus.bus")

ACK_AFTER_MS = 200
CHECK_EVERY_S = 1.0
CONFIRM_S = 0.3
"""A worker that lost its own connection is back after this time."""
PING_AGAIN_S = 1.0
"""Between two pings of an instance that does not answer."""
ABSENT_S = 5.0
"""An instance on standby is asked for nothing so long."""
STRIKES = 3
"""An instance that was slower than another so many times in a row is avoided until it answers a
ping."""
_MOST_PROBED = 64
"""Instances pinged at once, where the one that holds a request is not known."""


class State(Enum):
    """The outcome of a ping."""

    ALIVE = "alive"
    SILENT = "silent"
    GONE = "gone"
    UNKNOWN = "unknown"
    """The ping could not be sent."""


Ping = Callable[[str, str], Awaitable[State]]
"""Takes service and instance."""


class Fleet:
    """The instances of all services that this process sends requests to.

    Args:
        ping: raises nothing.
    """

    def __init__(self, ping: Ping) -> None:
        self._ping = ping
        self._instances: dict[str, set[str]] = {}
        self._followed: set[str] = set()
        self._silent: dict[str, set[str]] = {}
        self._absent_until_s: dict[str, float] = {}
        self._strikes: Counter[str] = Counter()
        self._pings: dict[str, asyncio.Task[State]] = {}
        self._background = Background()

    def follow(self, service: str, instances: Iterable[str]) -> None:
        """Take the instances that discovery found.

        Args:
            instances: none where one of them does not acknowledge requests, since nothing follows
                from its silence.
        """
        self._followed.add(service)
        before, now = self._instances.get(service, set()), set(instances)
        self._instances[service] = now
        for gone in before - now:
            self._strikes.pop(gone, None)

    def forget(self, service: str) -> None:
        """Drop what is known of a service that is no longer listed."""
        self._followed.discard(service)
        for gone in self._instances.pop(service, ()):
            self._strikes.pop(gone, None)

    def heard(self, service: str, instance: str) -> None:
        """Take an instance that acknowledged a request."""
        self._instances.setdefault(service, set()).add(instance)

    def known(self, service: str) -> bool:
        """Whether the service acknowledges requests, as far as this process knows."""
        return bool(self._instances.get(service))

    def complete(self, service: str) -> bool:
        """Whether every instance is known."""
        return service in self._followed

    def avoids(self, service: str) -> bool:
        """Whether an instance of the service does not answer, so that the others are asked."""
        return service in self._silent

    def pick(self, service: str, avoid: Collection[str] = ()) -> str | None:
        """An instance that is not known to be silent, gone or on standby; None if there is none."""
        instances = self._instances.get(service)
        if not instances:
            return None
        silent = self._silent.get(service, ())
        usable = [i for i in instances if i not in avoid and i not in silent and self._present(i)]
        return random.choice(usable) if usable else None  # noqa: S311  (load spreading)

    def absent(self, instance: str) -> None:
        """Nothing was subscribed to the instance's own subjects: it is on standby, or gone."""
        now_s = asyncio.get_running_loop().time()
        recent = {other: end_s for other, end_s in self._absent_until_s.items() if end_s > now_s}
        self._absent_until_s = {**recent, instance: now_s + ABSENT_S}

    def answered(self, instance: str) -> None:
        """The instance replied to a request of its own."""
        self._strikes.pop(instance, None)

    def strike(self, service: str, instance: str) -> None:
        """Another instance replied to a request that was sent to this one before."""
        if instance not in self._instances.get(service, ()):
            return  # it has left meanwhile, and nothing more is known of it
        self._strikes[instance] += 1
        if self._strikes[instance] >= STRIKES:
            del self._strikes[instance]
            self._avoid(service, instance)

    async def check(self, service: str, instance: str) -> State:
        """Ping an instance; concurrent checks share one ping."""
        ping = self._pings.get(instance)
        if ping is None:
            ping = asyncio.get_running_loop().create_task(self._checked(service, instance))
            self._pings[instance] = ping
            ping.add_done_callback(lambda _: self._pings.pop(instance, None))
        return await asyncio.shield(ping)

    async def probe(self, service: str) -> set[State]:
        """Ping every instance; the states found."""
        instances = sorted(self._instances.get(service, ()))
        if len(instances) > _MOST_PROBED:
            instances = random.sample(instances, _MOST_PROBED)
        return set(await asyncio.gather(*(self.check(service, name) for name in instances)))

    def forget_silence(self) -> None:
        """Avoid nobody: the connection was lost, and may have been why instances did not answer."""
        self._silent.clear()
        for task in self._background:
            task.cancel()

    async def watch(
        self, pending: Pending, service: str, *, may_repeat: bool, only: str = ""
    ) -> None:
        """End an attempt with `worker_lost` once that is known; runs beside it.

        Args:
            may_repeat: whether the request may be sent again.
            only: the one instance that can have it; empty where any can.
        """
        while not pending.outcome.done():
            if await self._is_lost(pending, service, may_repeat=may_repeat, only=only):
                message = f"The {service} worker that had the request is gone."
                fault = Fault(ErrorCode.UNAVAILABLE, message)
                pending.end(FailedAttempt(fault, "worker_lost", pending.instance))
                return
            await asyncio.sleep(CHECK_EVERY_S)

    async def close(self) -> None:
        """End the pings of instances that do not answer."""
        for task in list(self._background):
            await end_task(task)

    async def _checked(self, service: str, instance: str) -> State:
        state = await self._ping(service, instance)
        if state is State.SILENT:
            self._avoid(service, instance)
        elif state is State.GONE:
            self._left(service, instance)
        return state

    def _left(self, service: str, instance: str) -> None:
        self._instances.get(service, set()).discard(instance)
        self._strikes.pop(instance, None)

    def _present(self, instance: str) -> bool:
        until_s = self._absent_until_s.get(instance)
        return until_s is None or until_s <= asyncio.get_running_loop().time()

    def _avoid(self, service: str, instance: str) -> None:
        silent = self._silent.setdefault(service, set())
        if instance in silent:
            return
        silent.add(instance)
        log.warning("%s: the instance %s does not answer and is avoided", service, instance)
        self._background.start(self._until_it_answers(service, instance))

    async def _until_it_answers(self, service: str, instance: str) -> None:
        state = await self._ping(service, instance)
        while state in (State.SILENT, State.UNKNOWN):
            await asyncio.sleep(PING_AGAIN_S)
            state = await self._ping(service, instance)
        self._silent[service].discard(instance)
        if not self._silent[service]:
            del self._silent[service]
        if state is State.GONE:
            self._left(service, instance)
        log.info("%s: the instance %s is %s", service, instance, state.value)

    async def _is_lost(
        self, pending: Pending, service: str, *, may_repeat: bool, only: str
    ) -> bool:
        instance = pending.instance or only
        if instance:
            return await self._has_left(instance, service, may_repeat=may_repeat)
        if not self.known(service):
            return False
        states = await self.probe(service)
        if may_repeat and State.SILENT in states:
            await asyncio.sleep(PING_AGAIN_S)
            states = await self.probe(service)
        if pending.instance or State.UNKNOWN in states:
            return False
        if may_repeat and states != {State.ALIVE} and self.pick(service) is not None:
            return True
        if State.SILENT in states:
            return False  # it may have the request
        return may_repeat or self.complete(service)

    async def _has_left(self, instance: str, service: str, *, may_repeat: bool) -> bool:
        self.heard(service, instance)
        state = await self.check(service, instance)
        if state is State.GONE:
            await asyncio.sleep(CONFIRM_S)
            return await self.check(service, instance) is State.GONE
        if state is not State.SILENT or not may_repeat:
            return False
        await asyncio.sleep(PING_AGAIN_S)
        # Others may be behind the same server or on the same machine: the next attempt avoids them.
        await self.probe(service)
        is_silent = instance in self._silent.get(service, ())
        return is_silent and self.pick(service, avoid={instance}) is not None

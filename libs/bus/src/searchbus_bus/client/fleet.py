"""What this process notices of the instances of each service: which answer, and which do not.

Instances come from discovery (`follow`) and from acknowledgements (`heard`); those of a service
that nobody follows are looked for once a request is silent. One that leaves a ping unanswered is
avoided until it answers again; one whose ping has no responders is gone.

A worker that has not replied after `ACK_AFTER_MS` acknowledges the request with its instance id. A
request that has been silent for a second is watched, so that a lost one ends before its deadline:

| acknowledged | the ping | then |
| --- | --- | --- |
| by an instance | it answers | wait |
| | no responders, twice | the request is lost |
| | no answer, twice | ask another instance, if the request may be repeated |
| | no answer, also not within two seconds, and there is no other | it hangs: the request fails |
| by none | some instance does not answer, or is gone | the same |
| | none is found in three looks at a service that nobody follows | it hangs: the request fails |
| | all answer, or there is none | it is lost: whoever has it acknowledges it before it answers |

A worker that is only busy answers the second ping. To do its work elsewhere too would make all of
them busier: of 200 large answers on a busy machine, 441 were made.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable
from enum import Enum
from typing import Any, Literal, TypeVar

from searchbus_contracts import ErrorCode, Fault, is_token

from ..tasks import Background, end_task, has_arrived
from .reply import FailedAttempt, Pending

log = logging.getLogger("searchbus.bus")

ACK_AFTER_MS = 200
CHECK_EVERY_S = 1.0
CONFIRM_S = 0.3
"""A worker that lost its own connection is back after this time."""
PING_AGAIN_S = 1.0
"""Between two pings of an instance that does not answer."""
HUNG_S = 2.0
"""An instance that does not even answer one of several pings in this time hangs: it is not only
busy, nor on its way from a server that hangs to another one."""
HUNG_EVERY_S = 0.25
ABSENT_S = 5.0
"""An instance on standby is asked for nothing so long."""
STRIKES = 3
"""An instance that was the slower one so many times in a row is avoided until it answers a ping."""
_MOST_PROBED = 64
"""Instances pinged at once, where the one that holds a request is not known."""


class State(Enum):
    """The outcome of a ping."""

    ALIVE = "alive"
    SILENT = "silent"
    GONE = "gone"
    UNKNOWN = "unknown"
    """The ping could not be sent."""


Ping = Callable[[str, str, float | None], Awaitable[State]]
"""Takes service, instance, and for how long to wait, where that is not as usual."""
Look = Callable[[str], Coroutine[Any, Any, list[str] | None]]
"""Takes a service; its instances, or None where one of them does not acknowledge requests."""
Loss = Literal["worker_lost", "worker_hung"]
T = TypeVar("T")


class Fleet:
    """The instances of all services that this process sends to; `ping` and `look` raise nothing."""

    def __init__(self, ping: Ping, look: Look) -> None:
        self._ping = ping
        self._look = look
        self._instances: dict[str, set[str]] = {}
        self._followed: set[str] = set()
        self._silent: dict[str, set[str]] = {}
        self._absent_until_s: dict[str, float] = {}
        self._acknowledging: set[str] = set()
        """Services whose workers acknowledge requests, also after the last one has left."""
        self._strikes: Counter[str] = Counter()
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}
        self._background = Background()

    def follow(self, service: str, instances: Iterable[str] | None) -> None:
        """Take the instances that discovery found; those that do not answer stay known. None where
        one does not acknowledge requests, since nothing follows from its silence."""
        before = self._instances.get(service, set())
        if instances is None:
            self._followed.discard(service)
            self._acknowledging.discard(service)
            now = set()
        else:
            self._followed.add(service)
            # Any worker writes its id: one that no subject can have cannot be asked.
            now = {*filter(is_token, instances)} | (before & self._silent.get(service, set()))
            if now:
                self._acknowledging.add(service)
        self._instances[service] = now
        for gone in before - now:
            self._strikes.pop(gone, None)

    def forget(self, service: str) -> None:
        """Drop what is known of a service that is no longer listed."""
        self._followed.discard(service)
        self._acknowledging.discard(service)
        for gone in self._instances.pop(service, ()):
            self._strikes.pop(gone, None)

    def heard(self, service: str, instance: str) -> None:
        """Take an instance that acknowledged a request."""
        self._instances.setdefault(service, set()).add(instance)
        self._acknowledging.add(service)

    def avoids(self, service: str) -> bool:
        """Whether an instance of the service does not answer, so that the others are asked."""
        return service in self._silent

    def is_silent(self, service: str) -> bool:
        """Whether there are instances of the service, none of which answers."""
        instances = self._instances.get(service, set())
        return bool(instances) and instances <= self._silent.get(service, set())

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

    async def check(self, service: str, instance: str, *, patient: bool = False) -> State:
        """Ping an instance, for `HUNG_S` if `patient`; concurrent checks share one ping."""
        return await self._shared(
            (instance, patient), lambda: self._checked(service, instance, patient)
        )

    async def probe(self, service: str, *, patient: bool = False) -> set[State]:
        """Ping every instance; the states found."""
        instances = sorted(self._instances.get(service, ()))
        if len(instances) > _MOST_PROBED:
            instances = random.sample(instances, _MOST_PROBED)
        return set(
            await asyncio.gather(
                *(self.check(service, name, patient=patient) for name in instances)
            )
        )

    def forget_silence(self) -> None:
        """Avoid nobody: the connection was lost, and may have been why instances did not answer."""
        self._silent.clear()
        for task in self._background:
            task.cancel()

    async def watch(
        self, pending: Pending, service: str, *, may_repeat: bool, only: str = ""
    ) -> None:
        """End an attempt with its loss once that is known; runs beside it. It says whether the
        request may be repeated, and which instance `only` can have it, if one."""
        while not pending.outcome.done():
            loss = await self._loss(pending, service, may_repeat=may_repeat, only=only)
            if loss is not None:
                how = "is gone" if loss == "worker_lost" else "does not answer"
                message = f"The {service} worker that had the request {how}."
                fault = Fault(ErrorCode.UNAVAILABLE, message)
                pending.end(FailedAttempt(fault, loss, pending.instance))
                return
            await asyncio.sleep(CHECK_EVERY_S)

    async def close(self) -> None:
        """End the pings of instances that do not answer."""
        for task in list(self._background):
            await end_task(task)

    async def _checked(self, service: str, instance: str, patient: bool) -> State:
        state = await (
            self._pings(service, instance) if patient else self._ping(service, instance, None)
        )
        if state is State.ALIVE:
            self._answers(service, instance)
        elif state is State.SILENT:
            self._avoid(service, instance)
        elif state is State.GONE:
            self._left(service, instance)
        return state

    def _answers(self, service: str, instance: str) -> None:
        silent = self._silent.get(service, set())
        silent.discard(instance)
        if not silent:
            self._silent.pop(service, None)

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
        state = await self._ping(service, instance, None)
        while state in (State.SILENT, State.UNKNOWN):
            await asyncio.sleep(PING_AGAIN_S)
            state = await self._ping(service, instance, None)
        self._answers(service, instance)
        if state is State.GONE:
            self._left(service, instance)
        log.info("%s: the instance %s is %s", service, instance, state.value)

    async def _pings(self, service: str, instance: str) -> State:
        """Ping an instance for `HUNG_S`; the first answer counts, to whichever ping it is. Waits
        are counted, not the clock: while the machine stood still, nobody could answer."""
        answered = asyncio.get_running_loop().create_future()
        pings: list[asyncio.Future[State]] = []

        def note(ping: asyncio.Future[State]) -> None:
            if not (answered.done() or ping.cancelled() or ping.result() is State.SILENT):
                answered.set_result(ping.result())

        left_s = HUNG_S
        try:
            while left_s > 0 and not answered.done():
                pings.append(asyncio.ensure_future(self._ping(service, instance, HUNG_S)))
                pings[-1].add_done_callback(note)
                await asyncio.wait({answered}, timeout=min(left_s, HUNG_EVERY_S))
                left_s -= HUNG_EVERY_S
            return answered.result() if await has_arrived(answered) else State.SILENT
        finally:
            for ping in pings:
                ping.cancel()

    async def _shared(self, what: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to a question, asked once for all who ask it at the same time."""
        asked: asyncio.Task[T] | None = self._asked.get(what)
        if asked is None:
            asked = self._asked[what] = asyncio.get_running_loop().create_task(ask())
            asked.add_done_callback(lambda _: self._asked.pop(what, None))
        return await asyncio.shield(asked)

    async def _find(self, service: str) -> bool:
        """Look for the instances of a service that nobody follows; whether they acknowledge. All
        may be too busy to say that they are there: they are looked for up to three times."""
        if service in self._followed:
            return True
        for pause_s in (0.0, PING_AGAIN_S, PING_AGAIN_S):
            await asyncio.sleep(pause_s)
            found = await self._shared(service, lambda: self._look(service))
            for instance in found or ():
                self.heard(service, instance)
            if found is None or self._instances.get(service):
                break
        return found is not None

    async def _loss(
        self, pending: Pending, service: str, *, may_repeat: bool, only: str
    ) -> Loss | None:
        if instance := pending.instance or only:
            self.heard(service, instance)
        acknowledges = await self._find(service)
        if instance := pending.instance or only:
            return await self._loss_at(instance, service, may_repeat=may_repeat)
        if not acknowledges:
            return None
        states, patient = await self.probe(service), False
        if State.SILENT in states:
            await asyncio.sleep(PING_AGAIN_S)
            patient = not may_repeat or self.pick(service) is None
            states = await self.probe(service, patient=patient)
        if pending.instance or State.UNKNOWN in states:
            return None
        if not states and service not in self._followed:
            return "worker_hung"
        if not states and service not in self._acknowledging:
            return None  # a worker that has left may be finishing it
        if may_repeat and states != {State.ALIVE} and self.pick(service) is not None:
            return "worker_lost"
        if State.SILENT not in states:
            return "worker_lost"
        return "worker_hung" if patient else None  # who is silent may have it

    async def _loss_at(self, instance: str, service: str, *, may_repeat: bool) -> Loss | None:
        self.heard(service, instance)
        state = await self.check(service, instance)
        if state is State.GONE:
            await asyncio.sleep(CONFIRM_S)
            is_gone = await self.check(service, instance) is State.GONE
            return "worker_lost" if is_gone else None
        if state is not State.SILENT:
            return None
        await asyncio.sleep(PING_AGAIN_S)
        others = may_repeat and self.pick(service, avoid={instance}) is not None
        if others:
            # They may be behind the same server: the next attempt avoids those that are silent.
            await self.probe(service)
            is_silent = instance in self._silent.get(service, ())
        else:
            is_silent = await self.check(service, instance, patient=True) is State.SILENT
        if is_silent and may_repeat and self.pick(service, avoid={instance}) is not None:
            return "worker_lost"
        return "worker_hung" if is_silent and not others else None

"""The child processes of a stack: each is kept running; one that cannot be kept ends the stack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from .children import Child, GaveUp
from .errors import StackError

Kind = Literal["edge", "service", "fakes", "nats"]
_STOPPED_IN_ORDER: Sequence[Kind] = ("edge", "service", "fakes", "nats")
_VITAL: Sequence[Kind] = ("edge", "nats")
RETRY_S = 30.0
"""Between attempts to start a service that ends at once, while the others run."""
_POLL_S = 0.02


class Processes:
    """The processes of one stack.

    Args:
        on_restart: called after each start of a process of a complete stack.

    Attributes:
        complete: whether all of the stack has started. From then on a service that ends at once
            again and again does not end the stack: the others may work without it.
    """

    def __init__(self, on_restart: Callable[[], None]) -> None:
        self.children: list[Child] = []
        self.complete = False
        self._on_restart = on_restart
        self._kinds: dict[str, Kind] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._one_ended = asyncio.Event()

    def __contains__(self, name: str) -> bool:
        return name in self._keepers

    def keep(self, child: Child, kind: Kind) -> None:
        """Start a process in the background, and start it again whenever it ends."""
        self.children.append(child)
        self._kinds[child.name] = kind
        keeper = asyncio.get_running_loop().create_task(self._keep(child, kind))
        keeper.add_done_callback(lambda _: self._one_ended.set())
        self._keepers[child.name] = keeper

    async def _keep(self, child: Child, kind: Kind) -> None:
        while True:
            try:
                return await child.keep_running(self._started)
            except GaveUp as error:
                if kind in _VITAL or error.code == 2 or not self.complete:
                    raise
                child.say(f"{error} It is started again every {RETRY_S:.0f} s.")
            await asyncio.sleep(RETRY_S)

    def _started(self, _: Child) -> None:
        if self.complete:
            self._on_restart()

    async def wait_until(
        self, done: Callable[[], Awaitable[bool]], *, timeout_s: float, otherwise: str
    ) -> None:
        """Wait for a condition.

        Args:
            otherwise: what the error says where the condition does not hold in time.

        Raises:
            StackError: that, or a process cannot be kept running.
        """
        give_up_s = time.monotonic() + timeout_s
        while True:
            self.raise_for_dead()
            if await done():
                return
            if time.monotonic() > give_up_s:
                raise StackError(otherwise)
            await asyncio.sleep(_POLL_S)

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for `stop`.

        Raises:
            StackError: a process cannot be kept running.
        """
        loop = asyncio.get_running_loop()
        events = [loop.create_task(event.wait()) for event in (stop, self._one_ended)]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        for task in events:
            task.cancel()
        self.raise_for_dead()

    def raise_for_dead(self) -> None:
        """Raises StackError where a process could not be kept running."""
        for keeper in self._keepers.values():
            if keeper.done() and not keeper.cancelled():
                error = keeper.exception()
                if isinstance(error, GaveUp):
                    raise StackError(str(error))
                if error is not None:
                    raise error

    async def stop(self) -> None:
        """Stop the edges, then the services, then NATS."""
        for child in self.children:
            child.stopping = True
        for kind in _STOPPED_IN_ORDER:
            group = [child for child in self.children if self._kinds[child.name] == kind]
            await asyncio.gather(*(child.stop() for child in group))
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for child in self.children:
            if child.log is not None:
                child.log.close()
